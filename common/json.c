/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <math.h>

#include "macro.h"

json_t *json_bitset(const Bitset *b) {
        _cleanup_free_ char *list = NULL;

        return bitset_format(b, &list) < 0 ? NULL : json_string(list);
}

/* jansson takes only UTF-8; a comm or a cgroup's name may be any bytes. */
json_t *json_text(const char *s) {
        _cleanup_free_ char *plain = NULL;
        json_t *j;

        if (!s)
                return json_null();
        j = json_string(s);
        if (j)
                return j;
        plain = strdup(s);
        for (char *p = plain; p && *p; p++)
                if ((unsigned char) *p >= 0x7f || (unsigned char) *p < ' ')
                        *p = '?';
        return plain ? json_string(plain) : NULL;
}

json_t *json_strv(char *const *v) {
        json_t *a = json_array();

        for (; a && v && *v; v++)
                if (json_array_append_new(a, json_text(*v)) < 0) {
                        json_decref(a);
                        return NULL;
                }
        return a;
}

json_t *json_real_or_null(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}
