/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of models in and out, packed by gzip or not, and the best value that is known: best_known.tsv in the file's
 * folder or up to two above, with one line for each instance by its path from there. Its columns "instance" and
 * "best_known" are looked for by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fileio.h"
#include "common/gzip.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "ctl/solve.h"

#define MODEL_TEXT_MAX ((size_t) 1 << 30)
#define KNOWN_MAX ((size_t) 16 << 20)
#define KNOWN_FOLDERS 3U
#define RECOGNISED_PER_USEC 10U /* couplings, both directions */

static int unpack(const char *name, char **text, size_t *size) {
        _cleanup_free_ char *packed = TAKE_PTR(*text);
        int r;

        if (!gzip_is(packed, *size)) {
                *text = TAKE_PTR(packed);
                return EXIT_DONE;
        }
        r = gzip_unpack(packed, *size, MODEL_TEXT_MAX, text, size);
        if (r == -EFBIG)
                log_error("%s: unpacked it is larger than %zu MiB.", name, MODEL_TEXT_MAX >> 20);
        else if (r == -EBADMSG)
                log_error("%s: the gzip data are damaged or cut short.", name);
        else if (r < 0)
                (void) log_oom();
        return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int read_model_text(const char *path, char **ret, size_t *ret_size) {
        _cleanup_free_ char *message = NULL;
        int r;

        if (streq(path, "-"))
                r = read_stdin(MODEL_TEXT_MAX, ret, ret_size, &message);
        else
                r = read_text_file(path, MODEL_TEXT_MAX, ret, ret_size, &message);
        if (r < 0) {
                log_error("%s.", message ?: strerror(-r));
                return EXIT_FAILED;
        }
        return unpack(path, ret, ret_size);
}

/* The field of a column, not NUL-terminated. */
static bool field(const char *line, size_t n, unsigned column, const char **ret, size_t *ret_n) {
        const char *end = line + n;

        for (; column > 0; column--) {
                line = memchr(line, '\t', (size_t) (end - line));
                if (!line)
                        return false;
                line++;
        }
        *ret = line;
        line = memchr(line, '\t', (size_t) (end - line));
        *ret_n = (size_t) ((line ?: end) - *ret);
        return true;
}

static bool field_is(const char *line, size_t n, unsigned column, const char *want, size_t want_n) {
        const char *f;
        size_t m;

        return field(line, n, column, &f, &m) && m == want_n && memcmp(f, want, m) == 0;
}

static bool column_of(const char *line, size_t n, const char *title, unsigned *ret) {
        const char *f;
        size_t m;

        for (unsigned c = 0; field(line, n, c, &f, &m); c++)
                if (m == strlen(title) && memcmp(f, title, m) == 0) {
                        *ret = c;
                        return true;
                }
        return false;
}

static bool known_in(const char *text, const char *key, size_t key_n, double *ret) {
        size_t n = strcspn(text, "\r\n");
        unsigned by, value;

        if (!column_of(text, n, "instance", &by) || !column_of(text, n, "best_known", &value))
                return false;
        for (const char *line = text; *line; line += strspn(line, "\r\n")) {
                const char *f;
                size_t m;

                n = strcspn(line, "\r\n");
                if (field_is(line, n, by, key, key_n) && field(line, n, value, &f, &m)) {
                        _cleanup_free_ char *word = strndup(f, m);

                        return word && text_parse_double(word, ret) >= 0;
                }
                line += n;
        }
        return false;
}

/* What the .qubo of a placement problem is known to reach, as a cost. */
static bool known_by_plain(const Model *m, const char *text, const char *key, size_t key_n, double *ret) {
        _cleanup_free_ char *other = NULL;
        const char *suffix = m->in->format->suffix;
        double v;

        if (!m->in->has_plain || key_n <= strlen(suffix) ||
            asprintf(&other, "%.*squbo", (int) (key_n - strlen(suffix)), key) < 0)
                return false;
        if (!known_in(text, other, strlen(other), &v))
                return false;
        *ret = (double) instance_value(m->in, m->in->penalty * m->in->q->n_groups + m->in->constant) - v / 2;
        return true;
}

static void find_known(Model *m) {
        _cleanup_free_ char *path = streq(m->path, "-") ? NULL : realpath(m->path, NULL);
        size_t n = path ? strlen(path) : 0;
        char *slash;

        if (n > 3 && streq(path + n - 3, ".gz"))
                n -= 3;
        slash = path ? strrchr(path, '/') : NULL;
        for (unsigned i = 0; i < KNOWN_FOLDERS && slash && !m->has_known; i++) {
                _cleanup_free_ char *file = NULL, *text = NULL;
                const char *key = slash + 1;
                size_t key_n = n - (size_t) (key - path);

                if (asprintf(&file, "%.*s/best_known.tsv", (int) (slash - path), path) < 0)
                        return;
                if (read_regular_file(file, KNOWN_MAX, &text, NULL) >= 0)
                        m->has_known = known_in(text, key, key_n, &m->known) ||
                                       known_by_plain(m, text, key, key_n, &m->known);
                slash = slash > path ? memrchr(path, '/', (size_t) (slash - path)) : NULL;
        }
}

int model_load(const Options *o, const char *path, Model *ret) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        size_t size;
        int r;

        r = read_model_text(path, &text, &size);
        if (r != EXIT_DONE)
                return r;
        *ret = (Model){ .path = path };
        r = instance_read(o->format ? format_by_name(o->format) : NULL, streq(path, "-") ? "standard input" : path,
                          text, size, &ret->in, &message);
        if (r < 0) {
                if (message)
                        log_error("%s.", message);
                else
                        log_error_errno(r, "%s: cannot be read: %m", path);
                return EXIT_FAILED;
        }
        find_known(ret);
        return EXIT_DONE;
}

/* Not where it would take longer than the time that there is. Without it the model is solved as it stands. */
void model_recognise(Model *m, const Options *o) {
        const Qubo *q = m->in->q;
        uint64_t begin = clock_monotonic_usec(), budget = solve_budget(o);

        if (q->n_groups > 0 || (budget > 0 && q->row[q->n] / RECOGNISED_PER_USEC > budget))
                return;
        (void) qubo_recognise(q, &m->recognised);
        m->recognise_usec = clock_monotonic_usec() - begin;
}

void model_done(Model *m) {
        m->in = instance_free(m->in);
        m->recognised = recognised_free(m->recognised);
}

bool model_is_better(const Model *m, long double a, long double b) {
        return m->in->maximise ? a > b : a < b;
}

static int write_there(int fd, const char *data, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, data, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                size -= (size_t) n;
        }
        return 0;
}

/* A device or a FIFO is written to, not replaced. */
static int write_path(const char *path, const char *data, size_t size) {
        _cleanup_free_ char *real = realpath(path, NULL);
        _cleanup_close_ int fd = -1;
        struct stat st;

        if (!real || stat(real, &st) < 0 || S_ISREG(st.st_mode))
                return write_data_atomic(real ?: path, data, size, real ? st.st_mode & 0777 : 0644);
        fd = open(real, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : write_there(fd, data, size);
}

int ctl_check_output(const char *path) {
        _cleanup_free_ char *folder = NULL;
        const char *slash = strrchr(path, '/');
        struct stat st;
        bool is_there;
        int r = 0;

        folder = slash ? strndup(path, (size_t) (slash - path) + 1) : strdup(".");
        if (!folder)
                return log_oom(), EXIT_FAILED;
        if (streq(path, "-"))
                return EXIT_DONE;
        is_there = stat(path, &st) == 0;
        if (!is_there && errno != ENOENT)
                r = -errno;
        else if (is_there && S_ISDIR(st.st_mode))
                r = -EISDIR;
        else if (access(is_there && !S_ISREG(st.st_mode) ? path : folder, W_OK) < 0) /* a file is replaced as a whole */
                r = -errno;
        if (r < 0)
                log_error_errno(r, "%s: cannot be written: %m", path);
        return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

int ctl_write_output(const char *path, const char *text, size_t size) {
        _cleanup_free_ char *packed = NULL;
        size_t n = strlen(path);
        int r = 0;

        if (streq(path, "-")) {
                fwrite(text, 1, size, stdout);
                return EXIT_DONE;
        }
        if (n > 3 && streq(path + n - 3, ".gz")) {
                r = gzip_pack(text, size, &packed, &size);
                text = packed;
        }
        if (r >= 0)
                r = write_path(path, text, size);
        if (r < 0) {
                log_error_errno(r, "%s: cannot be written: %m", path);
                return EXIT_FAILED;
        }
        return EXIT_DONE;
}
