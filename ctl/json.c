/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of answers: a member that is absent or of another type reads as "nothing", so that an older daemon's shows. */
#include <math.h>

#include "ctl/ctl.h"

const json_t *jget(const json_t *o, const char *key) {
        const json_t *v = json_object_get(o, key);

        return json_is_null(v) ? NULL : v;
}

const char *jstr(const json_t *o, const char *key) {
        return strempty(json_string_value(json_object_get(o, key)));
}

double jnum(const json_t *o, const char *key) {
        const json_t *v = json_object_get(o, key);

        return json_is_number(v) ? json_number_value(v) : NAN;
}

char *jjoin(const json_t *array, const char *separator) {
        char *text = NULL;
        size_t size = 0, i;
        FILE *f = open_memstream(&text, &size);
        const json_t *v;

        if (!f)
                return NULL;
        json_array_foreach ((json_t *) array, i, v)
                fprintf(f, "%s%s", i > 0 ? separator : "", strempty(json_string_value(v)));
        if (fclose(f) != 0) {
                free(text);
                return NULL;
        }
        return text;
}
