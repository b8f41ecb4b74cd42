/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What jansson lacks for us: sets as kernel lists, string lists, text of unknown bytes, numbers that may be unknown.
 * Each returns a new reference, or NULL when out of memory, which jansson's _new functions take as their own failure.
 */
#pragma once

#include <jansson.h>

#include "bitset.h"

json_t *json_bitset(const Bitset *b); /* "0-3,8" */
json_t *json_strv(char *const *v);    /* an array, empty for NULL; strings by json_text() */
json_t *json_text(const char *s);     /* null for NULL; where it is not UTF-8, '?' for each byte that is not ASCII */
json_t *json_real_or_null(double d);  /* null for NAN and infinities, which JSON has not */
