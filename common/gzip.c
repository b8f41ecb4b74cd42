/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gzip (RFC 1952) in memory. A file may have several members one after another (pigz, cat a.gz b.gz), which are one
 * text. zlib counts in 32 bits, so it is fed by pieces.
 */
#include "gzip.h"

#include <errno.h>
#include <zlib.h>

#define PIECE (16U << 20)
#define GZIP_WINDOW (15 + 16) /* the largest window, with gzip's header */

typedef struct Output {
        char *data;
        size_t size, allocated, max;
} Output;

static bool output_room(Output *o, z_stream *z) {
        size_t want = MIN(MAX(o->allocated * 2, (size_t) 65536), o->max + 2);
        char *p;

        if (o->size == o->allocated) {
                p = realloc(o->data, want);
                if (!p)
                        return false;
                o->data = p;
                o->allocated = want;
        }
        z->next_out = (Bytef *) o->data + o->size;
        z->avail_out = (uInt) MIN(o->allocated - o->size, (size_t) PIECE);
        return true;
}

static void feed(z_stream *z, const char *data, size_t size, size_t *at) {
        if (z->avail_in > 0)
                return;
        z->next_in = (Bytef *) (uintptr_t) (data + *at);
        z->avail_in = (uInt) MIN(size - *at, (size_t) PIECE);
        *at += z->avail_in;
}

bool gzip_is(const char *data, size_t size) {
        return size >= 2 && (unsigned char) data[0] == 0x1f && (unsigned char) data[1] == 0x8b;
}

/* One call of inflate; 1: the end of all members. */
static int unpack_some(z_stream *z, Output *o, const char *data, size_t size, size_t *at) {
        uInt before;
        int r;

        if (!output_room(o, z))
                return -ENOMEM;
        feed(z, data, size, at);
        before = z->avail_out;
        r = inflate(z, Z_NO_FLUSH);
        o->size += before - z->avail_out;
        if (o->size > o->max)
                return -EFBIG;
        if (r == Z_MEM_ERROR)
                return -ENOMEM;
        if (r == Z_STREAM_END) {
                feed(z, data, size, at);
                /* What is behind a member and is none is padding, as gzip(1) has it. */
                if (z->avail_in < 2 || !gzip_is((const char *) z->next_in, z->avail_in))
                        return 1;
                return inflateReset(z) == Z_OK ? 0 : -EBADMSG;
        }
        return r == Z_OK && (z->avail_in > 0 || *at < size || z->avail_out == 0) ? 0 : -EBADMSG;
}

int gzip_unpack(const char *data, size_t size, size_t max, char **ret, size_t *ret_size) {
        z_stream z = {};
        Output o = { .max = max };
        size_t at = 0;
        int r = 0;

        if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
                return -ENOMEM;
        while (r == 0)
                r = unpack_some(&z, &o, data, size, &at);
        (void) inflateEnd(&z);
        if (r > 0 && o.size == o.allocated && !output_room(&o, &z))
                r = -ENOMEM;
        if (r < 0) {
                free(o.data);
                return r;
        }
        o.data[o.size] = '\0';
        *ret = o.data;
        *ret_size = o.size;
        return 0;
}

int gzip_pack(const char *data, size_t size, char **ret, size_t *ret_size) {
        z_stream z = {};
        Output o = { .max = SIZE_MAX - 2 };
        size_t at = 0;
        int r;

        if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK)
                return -ENOMEM;
        do {
                uInt before;

                feed(&z, data, size, &at);
                if (!output_room(&o, &z)) {
                        r = Z_MEM_ERROR;
                        break;
                }
                before = z.avail_out;
                r = deflate(&z, at < size ? Z_NO_FLUSH : Z_FINISH);
                o.size += before - z.avail_out;
        } while (r == Z_OK || r == Z_BUF_ERROR);
        (void) deflateEnd(&z);
        if (r != Z_STREAM_END) {
                free(o.data);
                return -ENOMEM;
        }
        *ret = o.data;
        *ret_size = o.size;
        return 0;
}
