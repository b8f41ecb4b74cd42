/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a table of ConfigItems to a filled struct. A section is read in two passes: every value is parsed into a Value
 * first, and only when all of them are good are they moved into the target, so a bad line changes nothing.
 * Bounds are in the unit of the field: bytes, bytes per second, microseconds.
 */
#include <errno.h>
#include <limits.h>
#include <strings.h>

#include "bitset.h"
#include "ini.h"

typedef struct Value {
        const ConfigItem *item;
        union {
                bool b;
                unsigned u;
                int i;
                double d;
                uint64_t u64;
                char *s;
                char **v;
                Bitset set;
        };
} Value;

static void value_done(Value *v) {
        if (!v->item)
                return;
        if (v->item->type == CONFIG_STRING)
                free(v->s);
        else if (v->item->type == CONFIG_STRV)
                strv_free(v->v);
        else if (v->item->type == CONFIG_BITSET)
                bitset_done(&v->set);
        v->item = NULL;
}

static int find_word(const char *const *words, const char *s) {
        for (int i = 0; words && words[i]; i++)
                if (strcasecmp(words[i], s) == 0)
                        return i;
        return -EINVAL;
}

static int parse_int(const ConfigItem *item, const char *s, int *ret) {
        int word = find_word(item->words, s);
        unsigned v;
        int r;

        if (word >= 0) {
                *ret = -1 - word;
                return 0;
        }
        r = text_parse_uint(*s == '-' ? s + 1 : s, 0, INT_MAX, &v);
        if (r < 0)
                return r;
        *ret = *s == '-' ? -(int) v : (int) v;
        return *ret < item->min || *ret > item->max ? -ERANGE : 0;
}

static int parse_u64(const ConfigItem *item, const char *s, uint64_t *ret) {
        int r = item->type == CONFIG_USEC ? text_parse_usec(s, ret) : text_parse_size(s, 1024, ret);

        if (r < 0)
                return r;
        return (double) *ret < item->min || (double) *ret > item->max ? -ERANGE : 0;
}

static int parse_number(const ConfigItem *item, const char *s, double *ret) {
        uint64_t bytes;
        int r;

        if (item->type == CONFIG_RATE) {
                r = text_parse_size(s, 1000, &bytes);
                if (r < 0)
                        return r;
                *ret = (double) bytes;
        } else {
                r = text_parse_double(s, ret);
                if (r < 0)
                        return r;
        }
        return *ret < item->min || *ret > item->max ? -ERANGE : 0;
}

static int parse_enum(const ConfigItem *item, const char *s, int *ret) {
        int r = find_word(item->words, s);

        if (r >= 0)
                *ret = r;
        return MIN(r, 0);
}

/* 0, -EINVAL, -ERANGE or -ENOMEM; v->item is set on success only. */
static int value_parse(const ConfigItem *item, const char *s, Value *v) {
        int r = -EINVAL;

        switch (item->type) {
        case CONFIG_BOOL:
                r = text_parse_bool(s);
                v->b = r > 0;
                break;
        case CONFIG_UINT: r = text_parse_uint(s, (unsigned) item->min, (unsigned) item->max, &v->u); break;
        case CONFIG_INT: r = parse_int(item, s, &v->i); break;
        case CONFIG_DOUBLE:
        case CONFIG_RATE: r = parse_number(item, s, &v->d); break;
        case CONFIG_USEC:
        case CONFIG_SIZE: r = parse_u64(item, s, &v->u64); break;
        case CONFIG_STRING:
                v->s = strdup(s);
                r = v->s ? 0 : -ENOMEM;
                break;
        case CONFIG_STRV: r = strv_split(s, " \t", &v->v); break;
        case CONFIG_BITSET:
                v->set = BITSET_EMPTY;
                r = bitset_parse(s, &v->set);
                break;
        case CONFIG_ENUM: r = parse_enum(item, s, &v->i); break;
        }
        if (r >= 0)
                v->item = item;
        return MIN(r, 0);
}

static void free_target(const ConfigItem *item, void *target) {
        void *p = (char *) target + item->offset;

        if (item->type == CONFIG_STRING) {
                free(*(char **) p);
                *(char **) p = NULL;
        } else if (item->type == CONFIG_STRV)
                *(char ***) p = strv_free(*(char ***) p);
        else if (item->type == CONFIG_BITSET)
                bitset_done(p);
}

/* Moves the value into its field; cannot fail. */
static void value_store(Value *v, void *target) {
        void *p = (char *) target + v->item->offset;

        free_target(v->item, target);
        switch (v->item->type) {
        case CONFIG_BOOL: *(bool *) p = v->b; break;
        case CONFIG_UINT: *(unsigned *) p = v->u; break;
        case CONFIG_INT:
        case CONFIG_ENUM: *(int *) p = v->i; break;
        case CONFIG_DOUBLE:
        case CONFIG_RATE: *(double *) p = v->d; break;
        case CONFIG_USEC:
        case CONFIG_SIZE: *(uint64_t *) p = v->u64; break;
        case CONFIG_STRING: *(char **) p = v->s; break;
        case CONFIG_STRV: *(char ***) p = v->v; break;
        case CONFIG_BITSET: *(Bitset *) p = v->set; break;
        }
        v->item = NULL;
}

static void format_number(const ConfigItem *item, double v, char *buf, size_t size) {
        if (item->type == CONFIG_SIZE && v >= 0x1p63)
                (void) snprintf(buf, size, "8192P");
        else if (item->type == CONFIG_SIZE)
                text_format_bytes(buf, size, (uint64_t) v);
        else if (item->type == CONFIG_RATE)
                text_format_rate(buf, size, v);
        else if (item->type == CONFIG_USEC && v == 0)
                (void) snprintf(buf, size, "0");
        else if (item->type == CONFIG_USEC && v >= 3600e6)
                (void) snprintf(buf, size, "%.10gh", v / 3600e6);
        else if (item->type == CONFIG_USEC && v >= 60e6)
                (void) snprintf(buf, size, "%.10gmin", v / 60e6);
        else if (item->type == CONFIG_USEC && v >= 1e6)
                (void) snprintf(buf, size, "%.10gs", v / 1e6);
        else if (item->type == CONFIG_USEC && v >= 1e3)
                (void) snprintf(buf, size, "%.10gms", v / 1e3);
        else if (item->type == CONFIG_USEC)
                (void) snprintf(buf, size, "%.10gus", v);
        else
                (void) snprintf(buf, size, "%.10g", v);
}

static char *join_words(const char *const *words, const char *first) {
        _cleanup_free_ char *text = strdup(first);

        for (; text && words && *words; words++) {
                char *longer;

                if (asprintf(&longer, "%s%s%s", text, *text ? ", " : "", *words) < 0)
                        return NULL;
                free(text);
                text = longer;
        }
        return TAKE_PTR(text);
}

char *config_range(const ConfigItem *item) {
        char min[64], max[64], text[160];

        switch (item->type) {
        case CONFIG_BOOL: return strdup("yes or no");
        case CONFIG_ENUM: return join_words(item->words, "");
        case CONFIG_STRING: return item->words ? join_words(item->words, "") : strdup("text");
        case CONFIG_STRV: return strdup("words separated by blanks");
        case CONFIG_BITSET: return strdup("a list of numbers such as 0-3,8");
        default:
                format_number(item, item->min, min, sizeof(min));
                format_number(item, item->max, max, sizeof(max));
                (void) snprintf(text, sizeof(text), "%s to %s", min, max);
                return join_words(item->words, text);
        }
}

static const char *type_noun(ConfigType type) {
        switch (type) {
        case CONFIG_UINT:
        case CONFIG_INT: return "a whole number";
        case CONFIG_DOUBLE: return "a number";
        case CONFIG_USEC: return "a time (us ms s min h d)";
        case CONFIG_SIZE: return "a size in bytes (K M G T P are powers of 1024)";
        case CONFIG_RATE: return "bytes per second (K M G T P are powers of 1000)";
        default: return NULL;
        }
}

static int fail_value(int r, const Ini *ini, const IniItem *i, const ConfigItem *item, char **ret_message) {
        _cleanup_free_ char *range = NULL;
        const char *noun = type_noun(item->type);

        if (r != -EINVAL && r != -ERANGE)
                return r;
        range = config_range(item);
        if (r == -ERANGE)
                return ini_fail(ret_message, ini, i->line, "%s=%.40s is out of range, allowed: %s", i->key, i->value,
                                strempty(range));
        if (*i->value == '\0')
                return ini_fail(ret_message, ini, i->line, "%s= has no value, allowed: %s", i->key, strempty(range));
        return ini_fail(ret_message, ini, i->line, "%s=%.40s is not %s%s%s", i->key, i->value,
                        noun                        ? noun
                        : item->type == CONFIG_ENUM ? "one of: "
                                                    : "",
                        noun ? ", allowed: " : "", strempty(range));
}

static bool in_section(const ConfigItem *item, const char *section) {
        return strcasecmp(item->section, section) == 0;
}

static const ConfigItem *find_item(const ConfigItem *items, const char *section, const char *key) {
        for (; items->section; items++)
                if (in_section(items, section) && strcasecmp(items->key, key) == 0)
                        return items;
        return NULL;
}

static int fail_key(const Ini *ini, const IniSection *section, const IniItem *i, const ConfigItem *items,
                    char **ret_message) {
        _cleanup_free_ char *known = NULL;
        _cleanup_free_ const char **keys = NULL;
        size_t n = 0;

        for (const ConfigItem *c = items; c->section; c++)
                n++;
        keys = calloc(n + 1, sizeof(*keys));
        if (!keys)
                return -ENOMEM;
        n = 0;
        for (const ConfigItem *c = items; c->section; c++)
                if (in_section(c, section->type))
                        keys[n++] = c->key;
        known = join_words(keys, "");
        return ini_fail(ret_message, ini, i->line, "[%s] has no key %s=, allowed: %s", section->type, i->key,
                        strempty(known));
}

int config_section_fill(const Ini *ini, const IniSection *section, const ConfigItem *items, void *target,
                        char **ret_message) {
        _cleanup_free_ Value *values = calloc(MAX(section->n_items, (size_t) 1), sizeof(*values));
        size_t n;
        int r = 0;

        if (!values)
                return -ENOMEM;
        for (n = 0; n < section->n_items && r >= 0; n++) {
                const IniItem *i = &section->items[n];
                const ConfigItem *item = find_item(items, section->type, i->key);

                if (!item) {
                        r = fail_key(ini, section, i, items, ret_message);
                        break;
                }
                r = value_parse(item, i->value, &values[n]);
                if (r < 0)
                        r = fail_value(r, ini, i, item, ret_message);
        }
        for (size_t i = 0; i < n; i++)
                if (r < 0)
                        value_done(&values[i]);
                else
                        value_store(&values[i], target);
        return r;
}

int config_defaults(const ConfigItem *items, const char *section, void *target) {
        for (; items->section; items++) {
                Value v = {};
                int r;

                if (!in_section(items, section) || !items->def)
                        continue;
                r = value_parse(items, items->def, &v);
                if (r < 0)
                        return r == -ERANGE ? -EINVAL : r;
                value_store(&v, target);
        }
        return 0;
}

void config_done(const ConfigItem *items, const char *section, void *target) {
        for (; items->section; items++)
                if (in_section(items, section))
                        free_target(items, target);
}
