/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", and the same for "full". CPU pressure of older kernels has no
 * "full" line. With psi=0 the files are there and opening them fails with EOPNOTSUPP.
 */
#include "daemon/readers/psi.h"

#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "common/text.h"

/* The word after NAME= in the line that begins with `kind`; false: no such. */
static bool field(const char *text, const char *kind, const char *name, char *buf, size_t size) {
        size_t k = strlen(kind), l = strlen(name);

        for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
                if (strncmp(line, kind, k) != 0 || line[k] != ' ')
                        continue;
                const char *end = strchrnul(line, '\n');

                for (const char *p = line + k; p < end; p += strcspn(p, " \n")) {
                        p += strspn(p, " ");
                        if (strncmp(p, name, l) == 0 && p[l] == '=') {
                                size_t n = strcspn(p + l + 1, " \n");

                                if (n >= size)
                                        return false;
                                memcpy(buf, p + l + 1, n);
                                buf[n] = '\0';
                                return true;
                        }
                }
                return false;
        }
        return false;
}

static int share(const char *text, const char *kind, const char *name, double *ret) {
        char buf[32];
        double v;
        int r;

        if (!field(text, kind, name, buf, sizeof(buf)))
                return -EBADMSG;
        r = text_parse_double(buf, &v);
        if (r < 0 || v < 0 || v > 100)
                return -EBADMSG;
        *ret = v;
        return 0;
}

static int total(const char *text, const char *kind, uint64_t *ret) {
        char buf[32];

        return field(text, kind, "total", buf, sizeof(buf)) && text_parse_u64(buf, ret) >= 0 ? 0 : -EBADMSG;
}

int psi_parse(const char *text, Psi *ret) {
        Psi p = {};
        int r = share(text, "some", "avg10", &p.some_avg10);

        if (r >= 0)
                r = share(text, "some", "avg60", &p.some_avg60);
        if (r >= 0)
                r = total(text, "some", &p.some_total);
        if (r < 0)
                return r;
        if (share(text, "full", "avg10", &p.full_avg10) >= 0) {
                r = share(text, "full", "avg60", &p.full_avg60);
                if (r >= 0)
                        r = total(text, "full", &p.full_total);
                if (r < 0)
                        return r;
        }
        *ret = p;
        return 0;
}

int psi_read(const char *path, Psi *ret) {
        _cleanup_free_ char *text = NULL;
        int r = read_file_at(AT_FDCWD, path, 4096, &text, NULL);

        if (r == -ENOENT || r == -EOPNOTSUPP || r == -ENOTDIR)
                return -ENODATA;
        return r < 0 ? r : psi_parse(text, ret);
}

static int read_below(const char *directory, const char *name, Psi *ret) {
        _cleanup_free_ char *path = NULL;

        if (asprintf(&path, "%s/%s", directory, name) < 0)
                return -ENOMEM;
        return psi_read(path, ret);
}

int psi_memory(const char *root, Psi *ret) {
        return read_below(strempty(root), "proc/pressure/memory", ret);
}

int psi_memory_group(const char *directory, Psi *ret) {
        return read_below(directory, "memory.pressure", ret);
}
