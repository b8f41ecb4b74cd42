/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small files in and out. Nothing here blocks on a FIFO or believes a size: every read has a cap. */
#pragma once

#include "macro.h"

#define FILEIO_MAX_DEFAULT (16U << 20)

/* Reads a kernel file (/proc, /sys: no meaningful size) or a regular one. dirfd may be AT_FDCWD. Adds a NUL after the
 * text. -EFBIG above max; -EISDIR; other negative errno. ret_size may be NULL. */
int read_file_at(int dirfd, const char *path, size_t max, char **ret, size_t *ret_size);
/* As above, but refuses everything except a regular file (-EBADFD: FIFO, socket, device). */
int read_regular_file(const char *path, size_t max, char **ret, size_t *ret_size);
/* As above with a sentence "PATH: …" for whatever goes wrong. */
int read_text_file(const char *path, size_t max, char **ret, size_t *ret_size, char **ret_message);
/* Until its end, however long that takes: for what a person pipes in. */
int read_stdin(size_t max, char **ret, size_t *ret_size, char **ret_message);
/* First line without newline, trailing blanks cut. */
int read_line_at(int dirfd, const char *path, char **ret);
int read_u64_at(int dirfd, const char *path, uint64_t *ret);
/* One write(2) to an existing (kernel) file: short writes are -EIO. */
int write_file_at(int dirfd, const char *path, const char *text);
/* Replaces path by text: temporary file beside it, fsync, rename. Old content stays on failure. */
int write_file_atomic(const char *path, const char *text, mode_t mode);
int write_data_atomic(const char *path, const char *data, size_t size, mode_t mode); /* the same, with NULs in it */
/* mkdir -p: path itself (with mode) and what is missing above it (0755). */
int mkdir_parents(const char *path, mode_t mode);
char *path_join(const char *a, const char *b); /* NULL on OOM; caller frees */
