/* SPDX-License-Identifier: Apache-2.0 */
/* Gzip in memory, by zlib. A few bytes can become any amount of text, so both ways have a cap. */
#pragma once

#include "macro.h"

bool gzip_is(const char *data, size_t size); /* begins as gzip does */
/* All members of it, with a NUL behind. -EFBIG: more than max bytes; -EBADMSG: damaged, or cut short. */
int gzip_unpack(const char *data, size_t size, size_t max, char **ret, size_t *ret_size);
int gzip_pack(const char *data, size_t size, char **ret, size_t *ret_size);
