/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole small files. A path is looked at before it is opened, since opening alone can do harm (a watchdog, a tape, a
 * FIFO that waits for a writer), and again after, since it may have been swapped meanwhile.
 */
#include "fileio.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "text.h"

static int check_mode(mode_t mode) {
        if (S_ISDIR(mode))
                return -EISDIR;
        return S_ISREG(mode) ? 0 : -EBADFD;
}

static int open_regular(int dirfd, const char *path, off_t *ret_size) {
        _cleanup_close_ int fd = -1;
        struct stat st;
        int r;

        if (fstatat(dirfd, path, &st, 0) < 0)
                return -errno;
        r = check_mode(st.st_mode);
        if (r < 0)
                return r;
        fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        r = check_mode(st.st_mode);
        if (r < 0)
                return r;
        *ret_size = st.st_size;
        return TAKE_FD(fd);
}

/* Files of /proc say size 0 and those of /sys say 4096: the size is only the first guess. */
static int read_all(int fd, size_t guess, size_t max, char **ret, size_t *ret_size) {
        _cleanup_free_ char *buf = NULL;
        size_t size = 0, room = guess + 1;

        for (;;) {
                char *b = realloc(buf, room + 1);
                ssize_t n;

                if (!b)
                        return -ENOMEM;
                buf = b;
                n = read(fd, buf + size, room - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
                if (size > max)
                        return -EFBIG;
                if (size == room)
                        room *= 2;
        }
        buf[size] = '\0';
        if (ret_size)
                *ret_size = size;
        *ret = TAKE_PTR(buf);
        return 0;
}

int read_file_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_size) {
        _cleanup_close_ int fd = -1;
        off_t size;

        fd = open_regular(dirfd, path, &size);
        if (fd < 0)
                return fd;
        return read_all(fd, MIN((size_t) MAX(size, (off_t) 4095), MIN(max, (size_t) 65535)), max, ret, ret_size);
}

int read_regular_file(const char *path, size_t max, char **ret, size_t *ret_size) {
        _cleanup_close_ int fd = -1;
        off_t size;

        fd = open_regular(AT_FDCWD, path, &size);
        if (fd < 0)
                return fd;
        if ((uint64_t) size > max)
                return -EFBIG;
        return read_all(fd, (size_t) size, max, ret, ret_size);
}

int read_text_file(const char *path, size_t max, char **ret, size_t *ret_size, char **ret_message) {
        int r = read_regular_file(path, max, ret, ret_size);

        if (r == -EISDIR)
                return text_fail(r, ret_message, "%s: is a directory, not a file", path);
        if (r == -EBADFD)
                return text_fail(r, ret_message, "%s: is a FIFO, a socket or a device; only regular files are read",
                                 path);
        if (r == -EFBIG)
                return text_fail(r, ret_message, "%s: larger than %zu KiB", path, max >> 10);
        if (r < 0)
                return text_fail(r, ret_message, "%s: cannot be read: %s", path, strerror(-r));
        return 0;
}

int read_stdin(size_t max, char **ret, size_t *ret_size, char **ret_message) {
        int r = read_all(STDIN_FILENO, MIN(max, (size_t) 65535), max, ret, ret_size);

        if (r == -EFBIG)
                return text_fail(r, ret_message, "standard input: larger than %zu KiB", max >> 10);
        if (r < 0)
                return text_fail(r, ret_message, "standard input: cannot be read: %s", strerror(-r));
        return 0;
}

int read_line_at(int dirfd, const char *path, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t n;
        int r;

        r = read_file_at(dirfd, path, 1U << 20, &text, NULL);
        if (r < 0)
                return r;
        n = strcspn(text, "\n");
        while (n > 0 && isspace((unsigned char) text[n - 1]))
                n--;
        text[n] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

int read_u64_at(int dirfd, const char *path, uint64_t *ret) {
        _cleanup_free_ char *line = NULL;
        int r;

        r = read_line_at(dirfd, path, &line);
        if (r < 0)
                return r;
        return text_parse_u64(line, ret);
}

int write_file_at(int dirfd, const char *path, const char *text) {
        _cleanup_close_ int fd = -1;
        size_t size = strlen(text);
        ssize_t n;

        fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        do
                n = write(fd, text, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        return (size_t) n == size ? 0 : -EIO;
}

static int write_all(int fd, const char *text, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, text, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                text += n;
                size -= (size_t) n;
        }
        return 0;
}

/* A rename lasts over a power cut only once its directory is on disk too. */
static int sync_parent(const char *path) {
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *dir = slash ? strndup(path, (size_t) (slash - path) + 1) : strdup(".");
        _cleanup_close_ int fd = -1;

        if (!dir)
                return -ENOMEM;
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        /* Some file systems cannot sync a directory; the file itself is whole all the same. */
        if (fsync(fd) < 0 && errno != EINVAL)
                return -errno;
        return 0;
}

int write_file_atomic(const char *path, const char *text, mode_t mode) {
        return write_data_atomic(path, text, strlen(text), mode);
}

int write_data_atomic(const char *path, const char *data, size_t size, mode_t mode) {
        _cleanup_free_ char *temporary = NULL;
        _cleanup_close_ int fd = -1;
        int r;

        if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
                temporary = NULL;
                return -ENOMEM;
        }
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = write_all(fd, data, size);
        if (r >= 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, path) < 0))
                r = -errno;
        if (r < 0) {
                (void) unlink(temporary);
                return r;
        }
        return sync_parent(path);
}

int mkdir_parents(const char *path, mode_t mode) {
        _cleanup_free_ char *p = strdup(path);
        struct stat st;

        if (!p)
                return -ENOMEM;
        for (char *s = p + 1; *p; s++) {
                char c = *s;

                if (c != '/' && c != '\0')
                        continue;
                *s = '\0';
                if (mkdir(p, c ? 0755 : mode) < 0 && errno != EEXIST)
                        return -errno;
                *s = c;
                if (!c)
                        break;
        }
        if (stat(path, &st) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

char *path_join(const char *a, const char *b) {
        size_t n = strlen(a);
        char *p;

        while (n > 0 && *b == '/' && a[n - 1] == '/')
                n--;
        if (asprintf(&p, "%.*s%s%s", (int) n, a, n == 0 || a[n - 1] == '/' || *b == '/' ? "" : "/", b) < 0)
                return NULL;
        return p;
}
