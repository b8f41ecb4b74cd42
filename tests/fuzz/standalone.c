/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main() for the fuzz entry points where libFuzzer is not at hand:
 *   fuzz-x FILE|DIRECTORY…                 runs each file once
 *   fuzz-x --seconds=N [--seed=N] PATH…    then mutates them for N seconds
 * Mutations are cut, repeat, splice, flip and insert of bytes and of words that parsers trip over. A crash leaves the
 * input in ./crash-input. The same entry points take libFuzzer: link them without this file and with
 * `clang -fsanitize=fuzzer,address,undefined`.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "common/fileio.h"
#include "common/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (64U << 10)

typedef struct Input {
        uint8_t *data;
        size_t size;
} Input;

static Input *seeds;
static size_t n_seeds;
static Input now; /* what is being run, for the signal handler */
static uint64_t state = 1;

static uint64_t next_random(void) {
        uint64_t z = state += 0x9e3779b97f4a7c15;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
}

static size_t below(size_t n) {
        return n ? next_random() % n : 0;
}

static void save_and_die(int sig) {
        int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ssize_t n = write(fd, now.data, now.size);

        (void) n;
        (void) signal(sig, SIG_DFL);
        (void) raise(sig);
}

/* An exact copy on the heap, so that the sanitizer sees a read behind its end. */
static void run(const uint8_t *data, size_t size) {
        uint8_t *copy = malloc(size ? size : 1);

        if (!copy)
                abort();
        memcpy(copy, data, size);
        now = (Input){ copy, size };
        (void) LLVMFuzzerTestOneInput(copy, size);
        free(copy);
}

static void add_path(const char *path) {
        Input i = {};
        struct dirent *e;
        DIR *d = opendir(path);

        for (; d && (e = readdir(d));)
                if (e->d_name[0] != '.') {
                        _cleanup_free_ char *p = path_join(path, e->d_name);

                        add_path(p);
                }
        if (d) {
                (void) closedir(d);
                return;
        }
        if (read_regular_file(path, FILEIO_MAX_DEFAULT, (char **) &i.data, &i.size) < 0) {
                fprintf(stderr, "%s: cannot be read\n", path);
                exit(1);
        }
        seeds = realloc(seeds, (n_seeds + 1) * sizeof(*seeds));
        if (!seeds)
                abort();
        seeds[n_seeds++] = i;
        run(i.data, i.size);
}

static size_t insert(uint8_t *data, size_t size, const void *what, size_t n) {
        size_t at = below(size + 1);

        if (size + n > INPUT_MAX)
                return size;
        memmove(data + at + n, data + at, size - at);
        memcpy(data + at, what, n);
        return size + n;
}

static size_t mutate(uint8_t *data, size_t size) {
        static const char *const words[] = { "=",
                                             "[",
                                             "]",
                                             "\n",
                                             "\"",
                                             "'",
                                             ";",
                                             " #",
                                             ":",
                                             "-1",
                                             "0",
                                             "inf",
                                             "nan",
                                             "1e999",
                                             "0x10",
                                             "\\",
                                             "\r\n",
                                             ",",
                                             "-",
                                             "65536",
                                             "4294967296",
                                             "\xff",
                                             "\xef\xbb\xbf",
                                             "%n",
                                             "\t",
                                             "99999999999999999999",
                                             "{",
                                             "}",
                                             "\\u0000",
                                             "null" };
        size_t at = below(size), n = 1 + below(size - at < 64 ? size - at : 64);
        const char *word = words[below(ELEMENTSOF(words))];
        const Input *other = &seeds[below(n_seeds)];
        uint8_t byte = (uint8_t) next_random();

        switch (below(6)) {
        case 0: /* cut */
                if (at + n > size)
                        return size;
                memmove(data + at, data + at + n, size - at - n);
                return size - n;
        case 1: /* flip a bit */
                if (size > 0)
                        data[at] ^= (uint8_t) (1U << below(8));
                return size;
        case 2: return insert(data, size, word, strlen(word));
        case 3: return insert(data, size, &byte, 1);
        case 4: { /* repeat a piece */
                uint8_t piece[64];

                if (at + n > size)
                        return size;
                memcpy(piece, data + at, n);
                return insert(data, size, piece, n);
        }
        default: /* splice a piece of another seed */
                at = below(other->size);
                n = below(other->size - at < 256 ? other->size - at : 256);
                return insert(data, size, other->data + at, n);
        }
}

static uint64_t fuzz(unsigned seconds) {
        uint8_t *data = malloc(INPUT_MAX + 256);
        time_t end = time(NULL) + (time_t) seconds;
        uint64_t runs = 0;

        if (!data)
                abort();
        for (; time(NULL) < end; runs++) {
                const Input *seed = &seeds[below(n_seeds)];
                size_t size = seed->size < INPUT_MAX ? seed->size : INPUT_MAX;

                memcpy(data, seed->data, size);
                for (size_t i = 1 + below(8); i > 0; i--)
                        size = mutate(data, size);
                run(data, size);
        }
        free(data);
        return runs;
}

int main(int argc, char **argv) {
        unsigned seconds = 0;
        uint64_t runs;

        for (size_t i = 0; i < 5; i++)
                (void) signal((int[]){ SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL }[i], save_and_die);
        for (int i = 1; i < argc; i++)
                if (strncmp(argv[i], "--seconds=", 10) == 0) {
                        if (text_parse_uint(argv[i] + 10, 0, 86400, &seconds) < 0)
                                return 2;
                } else if (strncmp(argv[i], "--seed=", 7) == 0) {
                        if (text_parse_u64(argv[i] + 7, &state) < 0)
                                return 2;
                } else
                        add_path(argv[i]);
        if (n_seeds == 0) {
                fprintf(stderr, "%s: no seeds\n", argv[0]);
                return 2;
        }
        runs = fuzz(seconds);
        printf("%zu seeds, %" PRIu64 " mutations\n", n_seeds, runs);
        for (size_t i = 0; i < n_seeds; i++)
                free(seeds[i].data);
        free(seeds);
        return 0;
}
