/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that passes the scan is written out again from what was read, and must read the same: iniparser may not have
 * cut, folded, joined or lost anything. What does not pass must come with a sentence.
 */
#include "common/ini.h"

#include "tests/fuzz/fuzz.h"

static void write_ini(FILE *f, const Ini *ini) {
        for (size_t i = 0; i < ini->n_sections; i++) {
                const IniSection *s = &ini->sections[i];

                fprintf(f, "[%s", s->type);
                for (char **a = s->args; a && *a; a++)
                        fprintf(f, " %s", *a);
                fputs("]\n", f);
                for (size_t j = 0; j < s->n_items; j++) {
                        const char *v = s->items[j].value, *quote = strchr(v, '"') ? "" : "\"";

                        fprintf(f, "%s=%s%s%s\n", s->items[j].key, quote, v, quote);
                }
        }
}

static void compare(const Ini *a, const Ini *b) {
        must(a->n_sections == b->n_sections);
        for (size_t i = 0; i < a->n_sections; i++) {
                const IniSection *s = &a->sections[i], *t = &b->sections[i];

                must(streq(s->type, t->type));
                must(s->n_items == t->n_items);
                must(strv_length(s->args) == strv_length(t->args));
                for (size_t j = 0; s->args && s->args[j]; j++)
                        must(streq(s->args[j], t->args[j]));
                for (size_t j = 0; j < s->n_items; j++) {
                        must(streq(s->items[j].key, t->items[j].key));
                        must(streq(s->items[j].value, t->items[j].value));
                }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(ini_freep) Ini *ini = NULL, *again = NULL;
        _cleanup_free_ char *message = NULL, *text = NULL;
        size_t length;
        FILE *f;

        if (ini_parse("fuzz", (const char *) data, size, &ini, &message) < 0) {
                must(!ini && message && !strchr(message, '\n'));
                return 0;
        }
        f = open_memstream(&text, &length);
        must(f);
        write_ini(f, ini);
        must(fclose(f) == 0);
        if (ini_parse("again", text, length, &again, &message) < 0) {
                fprintf(stderr, "%s\n%s\n", message, text);
                abort();
        }
        compare(ini, again);
        return 0;
}
