/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict scan. Each line is checked and taken apart here; what passes is written to a normalised copy (a memfd)
 * with ordinals for names ("[s12]", "k3=…": no colon, no case, no duplicate can confuse iniparser) and every value in
 * quotes. iniparser reads that copy and the values are taken from it. A value with a double quote inside is carried in
 * single quotes; its double quotes, when it has both, travel as byte 1, which the scan allows in no text. Backslashes
 * mean nothing to iniparser inside quotes. iniparser looks a key up by walking all of them, hence INI_ENTRIES_MAX.
 *
 * Errors name the first bad line. All is owned by the Ini that is built along the way.
 */
#include "ini.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>
#include <sys/mman.h>

#if __has_include(<iniparser/iniparser.h>)
#include <iniparser/iniparser.h>
#else
#include <iniparser.h>
#endif

#include "fileio.h"

#define NAME_MAX_BYTES 64
#define QUOTE_STAND_IN '\1'

typedef struct Scan {
        Ini *ini;
        FILE *copy;
        unsigned line;
        size_t n_entries;
        char **ret_message;
} Scan;

#define scan_fail(s, format, ...) ini_fail((s)->ret_message, (s)->ini, (s)->line, format, ##__VA_ARGS__)

const IniSection *ini_find_section(const Ini *ini, const char *type) {
        for (size_t i = 0; i < ini->n_sections; i++)
                if (strcasecmp(ini->sections[i].type, type) == 0)
                        return &ini->sections[i];
        return NULL;
}

const IniItem *ini_find_item(const IniSection *section, const char *key) {
        for (size_t i = 0; i < section->n_items; i++)
                if (strcasecmp(section->items[i].key, key) == 0)
                        return &section->items[i];
        return NULL;
}

const char *ini_find_value(const IniSection *section, const char *key) {
        const IniItem *item = ini_find_item(section, key);

        return item ? item->value : NULL;
}

unsigned ini_item_line(const IniSection *section, const char *key) {
        const IniItem *item = ini_find_item(section, key);

        return item ? item->line : section->line;
}

Ini *ini_free(Ini *ini) {
        if (!ini)
                return NULL;
        for (size_t i = 0; i < ini->n_sections; i++) {
                IniSection *s = &ini->sections[i];

                for (size_t j = 0; j < s->n_items; j++) {
                        free(s->items[j].key);
                        free(s->items[j].value);
                }
                free(s->items);
                free(s->type);
                strv_free(s->args);
        }
        free(ini->sections);
        free(ini->label);
        free(ini);
        return NULL;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static char *skip_blanks(char *s) {
        while (is_blank(*s))
                s++;
        return s;
}

static void cut_trailing_blanks(char *s) {
        size_t n = strlen(s);

        while (n > 0 && is_blank(s[n - 1]))
                s[--n] = '\0';
}

static bool is_end(const char *s) {
        return *s == '\0' || *s == '#' || *s == ';';
}

/* Length of the UTF-8 character at s, 0 when it is none (overlong, surrogate, beyond Unicode, cut off) or a control
 * character other than tab. */
static size_t text_character(const unsigned char *s, size_t left) {
        uint32_t c;
        size_t n;

        if (s[0] < 0x80)
                return s[0] >= 0x20 && s[0] != 0x7f ? 1 : s[0] == '\t';
        n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
        if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
                return 0;
        c = s[0] & (0xffU >> (n + 1));
        for (size_t i = 1; i < n; i++) {
                if ((s[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (s[i] & 0x3f);
        }
        if (c < (n == 4 ? 0x10000U : n == 3 ? 0x800U : 0x80U) || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
                return 0;
        return n;
}

static int check_text(Scan *s, const char *line, size_t size) {
        for (size_t i = 0, n; i < size; i += n) {
                n = text_character((const unsigned char *) line + i, size - i);
                if (n == 0)
                        return scan_fail(
                                s,
                                "byte 0x%02x in column %zu is not text; the file must be UTF-8 without control characters",
                                (unsigned char) line[i], i + 1);
        }
        return 0;
}

/* Letters, digits, '-' and '_', a letter first: what section types and keys are made of. */
static size_t name_length(const char *s) {
        size_t n = 0;

        if (!isalpha((unsigned char) *s))
                return 0;
        while (isalnum((unsigned char) s[n]) || s[n] == '-' || s[n] == '_')
                n++;
        return n;
}

static int count_entry(Scan *s) {
        if (++s->n_entries > INI_ENTRIES_MAX)
                return scan_fail(s, "too many sections and keys, at most %u are allowed", INI_ENTRIES_MAX);
        return 0;
}

static IniSection *add_section(Ini *ini) {
        IniSection *v;

        /* Grows at powers of two. */
        if ((ini->n_sections & (ini->n_sections - 1)) == 0) {
                v = realloc(ini->sections, MAX(ini->n_sections * 2, (size_t) 1) * sizeof(*v));
                if (!v)
                        return NULL;
                ini->sections = v;
        }
        v = &ini->sections[ini->n_sections++];
        *v = (IniSection){};
        return v;
}

static IniItem *add_item(IniSection *section) {
        IniItem *v;

        if ((section->n_items & (section->n_items - 1)) == 0) {
                v = realloc(section->items, MAX(section->n_items * 2, (size_t) 1) * sizeof(*v));
                if (!v)
                        return NULL;
                section->items = v;
        }
        v = &section->items[section->n_items++];
        *v = (IniItem){};
        return v;
}

static int scan_section(Scan *s, char *line) {
        char *end = strchr(line, ']'), *words = line + 1;
        IniSection *section;
        int r;

        if (!end || !is_end(skip_blanks(end + 1)) || memchr(words, '[', (size_t) (end - words)))
                return scan_fail(s, "not a section heading, which is one line of the form [Type Name]");
        *end = '\0';
        if (end - words > (ptrdiff_t) INI_VALUE_MAX)
                return scan_fail(s, "the section heading is longer than %u bytes", INI_VALUE_MAX);
        words = skip_blanks(words);
        size_t n = name_length(words);
        if (n == 0 || n > NAME_MAX_BYTES || (words[n] && !is_blank(words[n])))
                return scan_fail(
                        s, "a section heading starts with a word of letters, digits, '-' and '_', as in [Device npu0]");
        section = add_section(s->ini);
        if (!section)
                return -ENOMEM;
        section->line = s->line;
        section->type = strndup(words, n);
        if (!section->type)
                return -ENOMEM;
        if (*skip_blanks(words + n)) {
                r = strv_split(words + n, " \t", &section->args);
                if (r < 0)
                        return r;
        }
        fprintf(s->copy, "[s%zu]\n", s->ini->n_sections - 1);
        return count_entry(s);
}

/* Cuts the value out of what follows '=': quotes, blanks around it and a comment after it are not part of it. */
static int scan_value(Scan *s, const char *key, char *text, char **ret) {
        char *v = skip_blanks(text), *end;

        if (*v == '"') {
                end = strchr(++v, '"');
                if (!end)
                        return scan_fail(s, "the value of %s has no closing quote", key);
                *end = '\0';
                if (!is_end(skip_blanks(end + 1)))
                        return scan_fail(s, "characters follow the closing quote of the value of %s", key);
        } else {
                for (char *p = v; *p; p++)
                        if ((*p == '#' || *p == ';') && p > text && is_blank(p[-1])) {
                                *p = '\0';
                                break;
                        }
                cut_trailing_blanks(v);
        }
        if (strlen(v) > INI_VALUE_MAX)
                return scan_fail(s, "the value of %s is longer than %u bytes", key, INI_VALUE_MAX);
        *ret = v;
        return 0;
}

static void write_value(FILE *copy, size_t ordinal, char *value) {
        char quote = '"';

        if (strchr(value, '"') && !strchr(value, '\''))
                quote = '\'';
        else
                for (char *p = value; *p; p++)
                        if (*p == '"')
                                *p = QUOTE_STAND_IN;
        if (*value)
                fprintf(copy, "k%zu=%c%s%c\n", ordinal, quote, value, quote);
        else
                fprintf(copy, "k%zu=\n", ordinal);
}

static int scan_item(Scan *s, char *line) {
        size_t n = name_length(line);
        char *equals = skip_blanks(line + n), *value = NULL;
        IniItem *item;
        int r;

        if (*equals != '=')
                return scan_fail(s, "not a [Section], a Key=Value or a comment: \"%.40s%s\"", line,
                                 strlen(line) > 40 ? "…" : "");
        if (n == 0 || n > NAME_MAX_BYTES)
                return scan_fail(s, "a key is 1 to %d letters, digits, '-' and '_', and starts with a letter",
                                 NAME_MAX_BYTES);
        if (s->ini->n_sections == 0)
                return scan_fail(s, "%.*s= stands before the first [Section]", (int) n, line);
        line[n] = '\0';
        item = add_item(&s->ini->sections[s->ini->n_sections - 1]);
        if (!item)
                return -ENOMEM;
        item->line = s->line;
        item->key = strdup(line);
        if (!item->key)
                return -ENOMEM;
        r = scan_value(s, item->key, equals + 1, &value);
        if (r < 0)
                return r;
        write_value(s->copy, s->ini->sections[s->ini->n_sections - 1].n_items - 1, value);
        return count_entry(s);
}

static int scan_line(Scan *s, const char *start, size_t size) {
        _cleanup_free_ char *line = NULL;
        char *p;
        int r;

        if (size > 0 && start[size - 1] == '\r')
                size--;
        r = check_text(s, start, size);
        if (r < 0)
                return r;
        line = strndup(start, size);
        if (!line)
                return -ENOMEM;
        p = skip_blanks(line);
        if (is_end(p))
                return 0;
        cut_trailing_blanks(p);
        return *p == '[' ? scan_section(s, p) : scan_item(s, p);
}

static int scan(Scan *s, const char *text, size_t size) {
        static const char bom[] = { '\xef', '\xbb', '\xbf' };
        const char *end = text + size;
        int r;

        if (size >= sizeof(bom) && memcmp(text, bom, sizeof(bom)) == 0)
                text += sizeof(bom);
        while (text < end) {
                const char *newline = memchr(text, '\n', (size_t) (end - text));
                size_t n = (size_t) ((newline ? newline : end) - text);

                s->line++;
                r = scan_line(s, text, n);
                if (r < 0)
                        return r;
                text += n + 1;
        }
        return 0;
}

static int item_compare(const void *x, const void *y) {
        const IniItem *a = *(const IniItem *const *) x, *b = *(const IniItem *const *) y;
        int r = strcasecmp(a->key, b->key);

        return r ? r : CMP(a->line, b->line);
}

static int check_items(const Ini *ini, const IniSection *section, char **ret_message) {
        _cleanup_free_ const IniItem **v = calloc(MAX(section->n_items, (size_t) 1), sizeof(*v));
        const IniItem *bad = NULL, *first = NULL;

        if (!v)
                return -ENOMEM;
        for (size_t i = 0; i < section->n_items; i++)
                v[i] = &section->items[i];
        qsort(v, section->n_items, sizeof(*v), item_compare);
        for (size_t i = 1; i < section->n_items; i++)
                if (strcasecmp(v[i - 1]->key, v[i]->key) == 0 && (!bad || v[i]->line < bad->line)) {
                        bad = v[i];
                        first = v[i - 1];
                }
        if (!bad)
                return 0;
        return ini_fail(ret_message, ini, bad->line, "%s= is given twice in this section, first in line %u", bad->key,
                        first->line);
}

static int section_name_compare(const IniSection *a, const IniSection *b) {
        int r = strcasecmp(a->type, b->type);

        for (size_t i = 0; r == 0; i++) {
                const char *p = a->args ? a->args[i] : NULL, *q = b->args ? b->args[i] : NULL;

                if (!p || !q)
                        return (p != NULL) - (q != NULL);
                r = strcmp(p, q);
        }
        return r;
}

static int section_compare(const void *x, const void *y) {
        const IniSection *a = *(const IniSection *const *) x, *b = *(const IniSection *const *) y;
        int r = section_name_compare(a, b);

        return r ? r : CMP(a->line, b->line);
}

static int check_duplicates(const Ini *ini, char **ret_message) {
        _cleanup_free_ const IniSection **v = calloc(MAX(ini->n_sections, (size_t) 1), sizeof(*v));
        const IniSection *bad = NULL, *first = NULL;
        int r;

        if (!v)
                return -ENOMEM;
        for (size_t i = 0; i < ini->n_sections; i++) {
                v[i] = &ini->sections[i];
                r = check_items(ini, v[i], ret_message);
                if (r < 0)
                        return r;
        }
        qsort(v, ini->n_sections, sizeof(*v), section_compare);
        for (size_t i = 1; i < ini->n_sections; i++)
                if (section_name_compare(v[i - 1], v[i]) == 0 && (!bad || v[i]->line < bad->line)) {
                        bad = v[i];
                        first = v[i - 1];
                }
        if (!bad)
                return 0;
        return ini_fail(ret_message, ini, bad->line, "section [%s%s%s] is there twice, first in line %u", bad->type,
                        bad->args ? " " : "", bad->args ? bad->args[0] : "", first->line);
}

static int take_values(Ini *ini, const dictionary *d) {
        for (size_t i = 0; i < ini->n_sections; i++)
                for (size_t j = 0; j < ini->sections[i].n_items; j++) {
                        char key[64];
                        const char *value;
                        char *copy;

                        (void) snprintf(key, sizeof(key), "s%zu:k%zu", i, j);
                        value = iniparser_getstring(d, key, NULL);
                        if (!value)
                                return -EIO;
                        copy = ini->sections[i].items[j].value = strdup(value);
                        if (!copy)
                                return -ENOMEM;
                        for (; *copy; copy++)
                                if (*copy == QUOTE_STAND_IN)
                                        *copy = '"';
                }
        return 0;
}

static int read_copy(Ini *ini, int fd, char **ret_message) {
        char path[64];
        dictionary *d;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        d = iniparser_load(path);
        r = d ? take_values(ini, d) : -EIO;
        iniparser_freedict(d);
        if (r == -EIO)
                return text_fail(r, ret_message, "%s: iniparser cannot read the checked text (is /proc mounted?)",
                                 ini->label);
        return r;
}

static int parse(Ini *ini, const char *text, size_t size, char **ret_message) {
        _cleanup_close_ int fd = memfd_create("ini", MFD_CLOEXEC);
        int copy_fd = fd < 0 ? -1 : dup(fd);
        _cleanup_fclose_ FILE *copy = copy_fd < 0 ? NULL : fdopen(copy_fd, "w");
        Scan s = { .ini = ini, .copy = copy, .ret_message = ret_message };
        int r;

        if (!copy) {
                r = -errno;
                if (copy_fd >= 0)
                        (void) close(copy_fd);
                return text_fail(r, ret_message, "%s: cannot make a temporary copy in memory", ini->label);
        }
        r = scan(&s, text, size);
        if (r < 0)
                return r;
        if (fflush(copy) != 0)
                return text_fail(-errno, ret_message, "%s: cannot write a temporary copy in memory", ini->label);
        r = check_duplicates(ini, ret_message);
        if (r < 0)
                return r;
        return read_copy(ini, fd, ret_message);
}

int ini_parse(const char *label, const char *text, size_t size, Ini **ret, char **ret_message) {
        _cleanup_(ini_freep) Ini *ini = calloc(1, sizeof(*ini));
        int r;

        if (!ini)
                return -ENOMEM;
        ini->label = strdup(label);
        if (!ini->label)
                return -ENOMEM;
        if (size > INI_FILE_MAX)
                return text_fail(-EFBIG, ret_message, "%s: more than %u MiB of text", label, INI_FILE_MAX >> 20);
        r = parse(ini, text, size, ret_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(ini);
        return 0;
}

int ini_load(const char *path, Ini **ret, char **ret_message) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r;

        r = read_text_file(path, INI_FILE_MAX, &text, &size, ret_message);
        if (r < 0)
                return r;
        return ini_parse(path, text, size, ret, ret_message);
}
