/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, sizes and sentences in and out of text. Every parser takes the whole string (no trailing characters),
 * leaves *ret untouched on failure and returns 0, -EINVAL (not such a thing) or -ERANGE (does not fit).
 *
 * Sentences for people: a function with `char **ret_message` as its last parameter stores there, when it fails because
 * of its input, one sentence with what was wrong, where, and what is allowed (no trailing newline; caller frees).
 */
#pragma once

#include <inttypes.h>
#include <stdarg.h>

#include "macro.h"

int text_parse_u64(const char *s, uint64_t *ret); /* decimal only, no sign, no blanks */
int text_parse_uint(const char *s, unsigned min, unsigned max, unsigned *ret);
int text_parse_pid(const char *s, pid_t *ret);
int text_parse_double(const char *s, double *ret); /* C locale whatever the locale is; finite only */
int text_parse_size(const char *s, unsigned base,
                    uint64_t *ret);                /* "64G", "1.5T"; suffix K M G T P, base 1024 or 1000 */
int text_parse_usec(const char *s, uint64_t *ret); /* "5ms" "2s" "1min" "250us"; a bare number is seconds */
int text_parse_bool(const char *s);                /* 1, 0 or -EINVAL: yes no true false on off 1 0 */

char *text_format_bytes(char *buf, size_t size, uint64_t bytes);         /* "60.3 GiB"; returns buf */
char *text_format_rate(char *buf, size_t size, double bytes_per_second); /* "30 GB/s" */

/* Sets *ret_message (if not NULL) to the formatted sentence and returns r. Frees an earlier message. */
int text_fail(int r, char **ret_message, const char *format, ...) _printf_(3, 4);

/* Names of jobs, rank sections, devices and kinds: they become file, D-Bus and cgroup names. */
#define NAME_RULE "1 to 64 letters, digits, '.', '_' and '-', not '.' or '-' first"
bool name_is_valid(const char *s) _pure_;

/* NULL-terminated string lists, owned by the caller. */
char **strv_free(char **v); /* returns NULL */
DEFINE_CLEANUP(char **, strv_free);
size_t strv_length(char *const *v) _pure_;
bool strv_contains(char *const *v, const char *s) _pure_;
int strv_push(char ***v, char *s); /* takes s (frees it on failure); -ENOMEM, also when s is NULL */
int strv_extend(char ***v, const char *s);
int strv_extendf(char ***v, const char *format, ...) _printf_(2, 3);
int strv_split(const char *s, const char *separators, char ***ret); /* no empty words */
