/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI text as used by qschedd.conf, device descriptions and job files. A strict scan of our own comes first (regular
 * file, size cap, valid UTF-8 without NUL, line numbers, lengths, duplicate keys and sections), then iniparser reads
 * the values from a normalised copy in which nothing is left that iniparser 4.1 would misread: it folds case, merges
 * duplicates, cuts values at ';' and '#', loses section names with a colon and gives up at 1,000 characters.
 *
 * Grammar: "[Type Arg Arg …]" sections (Type not case-sensitive, Args case-sensitive), "Key=Value" (Key not
 * case-sensitive), comments: a line that starts with '#' or ';', or blank + '#' or ';' after a value. A value in
 * double quotes keeps everything between them. Values are at most INI_VALUE_MAX bytes.
 */
#pragma once

#include "text.h"

#define INI_FILE_MAX (4U << 20)
#define INI_VALUE_MAX 900U
#define INI_ENTRIES_MAX 30000U /* sections and keys of one file */

typedef struct IniItem {
        char *key; /* as written */
        char *value;
        unsigned line;
} IniItem;

typedef struct IniSection {
        char *type;  /* first word, as written: "Device" */
        char **args; /* further words, NULL-terminated; NULL when none */
        unsigned line;
        IniItem *items;
        size_t n_items;
} IniSection;

typedef struct Ini {
        char *label; /* file name, or what the text is, for messages: "train.job" */
        IniSection *sections;
        size_t n_sections;
} Ini;

/* text need not be NUL-terminated. On bad input: -EBADMSG (-EFBIG above INI_FILE_MAX) and a sentence "LABEL:LINE: …" in *ret_message. */
int ini_parse(const char *label, const char *text, size_t size, Ini **ret, char **ret_message);
/* As above from a file; also -ENOENT, -EACCES, -EISDIR, -EBADFD (no regular file), -EFBIG, each with a sentence. */
int ini_load(const char *path, Ini **ret, char **ret_message);
const IniSection *ini_find_section(const Ini *ini, const char *type) _pure_;     /* the first; NULL: none */
const IniItem *ini_find_item(const IniSection *section, const char *key) _pure_; /* NULL: none */
const char *ini_find_value(const IniSection *section, const char *key) _pure_;   /* NULL: none */
unsigned ini_item_line(const IniSection *section, const char *key) _pure_;       /* none: the section's line */
/* Fails with "LABEL:LINE: …". */
#define ini_fail(ret_message, ini, line_number, format, ...)                                                           \
        text_fail(-EBADMSG, ret_message, "%s:%u: " format, (ini)->label, line_number, ##__VA_ARGS__)
Ini *ini_free(Ini *ini);
DEFINE_CLEANUP(Ini *, ini_free);

/*
 * One table describes each kind of INI text; it fills defaults, parses, bounds, rejects what it does not know, and
 * makes --help, the commented default file and the manual's list.
 */
typedef enum ConfigType {
        CONFIG_BOOL,   /* bool */
        CONFIG_UINT,   /* unsigned, min..max */
        CONFIG_INT,    /* int, min..max; words[i], if any, stands for -1 - i ("auto" for -1) */
        CONFIG_DOUBLE, /* double, min..max */
        CONFIG_USEC,   /* uint64_t microseconds, min..max in microseconds */
        CONFIG_SIZE,   /* uint64_t bytes, powers of 1024 */
        CONFIG_RATE,   /* double bytes per second, powers of 1000 */
        CONFIG_STRING, /* char *, owned; the words, if any, are only for the help */
        CONFIG_STRV,   /* char **, owned; value split at blanks */
        CONFIG_BITSET, /* Bitset */
        CONFIG_ENUM,   /* int, index into the NULL-terminated words */
} ConfigType;

typedef struct ConfigItem {
        const char *section;
        const char *key;
        ConfigType type;
        double min, max;          /* for numbers */
        const char *def;          /* default as text, NULL: stays as it is */
        size_t offset;            /* into the struct that is filled */
        const char *const *words; /* for CONFIG_ENUM */
        const char *help;         /* one sentence: what it does, in which unit */
} ConfigItem;

/* Fills `target` from the items of one section of the table; keys that the table lacks, values outside min..max are
 * errors: -EBADMSG and "LABEL:LINE: …" with the allowed range. Nothing of *target changes on failure. */
int config_section_fill(const Ini *ini, const IniSection *section, const ConfigItem *items, void *target,
                        char **ret_message);
/* Sets what has a default; *target must be zeroed or filled before. A default that its own row refuses is -EINVAL. */
int config_defaults(const ConfigItem *items, const char *section, void *target);
void config_done(const ConfigItem *items, const char *section, void *target); /* frees strings, lists and sets */
/* What the item allows, for people: "1 to 65536", "yes or no", "ok, warning, alarm". NULL on OOM; caller frees. */
char *config_range(const ConfigItem *item);
