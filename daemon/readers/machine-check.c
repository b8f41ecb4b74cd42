/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands between outside XML and hwloc. hwloc 2.x believes what it reads: a DOCTYPE without a system id is a NULL
 * it compares, a huge os_index or set is a bitmap it allocates, a huge nbobjs a product that overflows, a comment among
 * the objects the end of them. So the text is scanned here first, by a small XML reader of our own (elements,
 * attributes, the five entities and character references; no DTD, no CDATA); what is out of bounds is refused with
 * its line and what is allowed, and all else is written again in the one plain form that hwloc's own parser takes:
 * type first, double quotes, no comments, no userdata, lengths that are true, ASCII only.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>

#include "common/text.h"
#include "daemon/readers/machine-internal.h"

#define DEPTH_MAX 128U
#define ELEMENTS_MAX 500000U
#define ATTRIBUTES_MAX 64U
#define NAME_MAX_XML 64U
#define MATRIX_MAX 4096U        /* objects in one distance matrix: 128 MiB */
#define MEMORY_MAX (1ULL << 50) /* bytes in one node */
#define SET_WORDS_MAX (BITSET_MAX / 32)

typedef struct Slice {
        const char *s;
        size_t n;
} Slice;

typedef struct Attribute {
        Slice name;
        const char *value;
} Attribute;

typedef struct Scan {
        const char *label;
        const char *p, *end;
        unsigned line;
        char **message;
        Slice stack[DEPTH_MAX]; /* open elements */
        unsigned stack_line[DEPTH_MAX];
        unsigned depth;
        unsigned n_elements;
        unsigned dropping; /* depth at which an element that is not passed on began; 0 none */
        bool pending;      /* the last start tag written has no '>' yet */
        Attribute attributes[ATTRIBUTES_MAX];
        unsigned n_attributes;
        char *values; /* of the element being read, NUL-terminated; never longer than the text they came from */
        size_t n_values;
        FILE *out; /* to memory; asked for errors once, at the end */
} Scan;

__attribute__((__format__(__printf__, 2, 3))) static int refuse(const Scan *s, const char *format, ...) {
        _cleanup_free_ char *what = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&what, format, ap);
        va_end(ap);
        if (r < 0)
                return -ENOMEM;
        for (char *p = what; *p; p++) /* a value of theirs may be quoted in it */
                if ((unsigned char) *p < ' ')
                        *p = '?';
        return text_fail(-EBADMSG, s->message, "%s:%u: %s", s->label, s->line, what);
}

static bool slice_is(Slice a, const char *s) {
        return a.n == strlen(s) && memcmp(a.s, s, a.n) == 0;
}

static bool slice_equal(Slice a, Slice b) {
        return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static bool at(const Scan *s, const char *what) {
        size_t n = strlen(what);

        return (size_t) (s->end - s->p) >= n && memcmp(s->p, what, n) == 0;
}

static void advance(Scan *s, size_t n) {
        for (; n > 0; n--)
                if (*s->p++ == '\n')
                        s->line++;
}

static void skip_blanks(Scan *s) {
        while (s->p < s->end && strchr(" \t\r\n", *s->p))
                advance(s, 1);
}

static int truncated(const Scan *s) {
        if (s->depth == 0)
                return refuse(s, "the file ends before its first element");
        return refuse(s, "the file ends inside <%.*s>, which begins in line %u: it is cut off",
                      (int) s->stack[s->depth - 1].n, s->stack[s->depth - 1].s, s->stack_line[s->depth - 1]);
}

static int skip_until(Scan *s, const char *what) {
        while (s->p < s->end && !at(s, what))
                advance(s, 1);
        if (s->p >= s->end)
                return truncated(s);
        advance(s, strlen(what));
        return 0;
}

/* Names as hwloc uses them; its own parser takes no others. */
static int scan_name(Scan *s, Slice *ret) {
        Slice name = { .s = s->p };

        while (s->p < s->end && name.n <= NAME_MAX_XML &&
               (islower((unsigned char) *s->p) || isdigit((unsigned char) *s->p) || *s->p == '_')) {
                s->p++;
                name.n++;
        }
        if (s->p >= s->end)
                return truncated(s);
        if (name.n == 0 || name.n > NAME_MAX_XML)
                return refuse(s, "no name; names are of at most %u small letters, digits and \"_\"", NAME_MAX_XML);
        *ret = name;
        return 0;
}

/* "&amp;" and relatives, "&#10;", "&#xa;". Any other entity needs a DTD and is refused. */
static int scan_reference(Scan *s, char *ret) {
        static const struct {
                const char *name;
                char c;
        } entities[] = { { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' } };
        char digits[12] = "";
        unsigned long code;
        size_t n = 0;
        bool hex;

        for (size_t i = 0; i < ELEMENTSOF(entities); i++)
                if (at(s, entities[i].name)) {
                        *ret = entities[i].c;
                        advance(s, strlen(entities[i].name));
                        return 0;
                }
        hex = at(s, "&#x");
        if (!hex && !at(s, "&#"))
                return refuse(s, "an entity that XML does not define; amp, lt, gt, quot, apos and numbers are allowed");
        advance(s, hex ? 3 : 2);
        while (s->p < s->end && n < sizeof(digits) - 1 && isxdigit((unsigned char) *s->p))
                digits[n++] = *s->p++;
        if (n == 0 || s->p >= s->end || *s->p != ';')
                return refuse(s, "a character reference that is not one, such as &#10;");
        advance(s, 1);
        code = strtoul(digits, NULL, hex ? 16 : 10);
        *ret = code == '\n' || code == '\r' || code == '\t' || (code >= ' ' && code < 0x7f) ? (char) code : '?';
        return 0;
}

static int scan_value(Scan *s, const char **ret) {
        char *value = s->values + s->n_values;
        char quote;
        int r;

        if (s->p >= s->end)
                return truncated(s);
        quote = *s->p;
        if (quote != '"' && quote != '\'')
                return refuse(s, "an attribute without a quoted value");
        advance(s, 1);
        for (;;) {
                char c;

                if (s->p >= s->end)
                        return truncated(s);
                c = *s->p;
                if (c == quote)
                        break;
                if (c == '<')
                        return refuse(s, "\"<\" inside an attribute's value");
                if (c == '&') {
                        r = scan_reference(s, &c);
                        if (r < 0)
                                return r;
                } else
                        advance(s, 1);
                /* Beyond ASCII there are only names of boards and the like: nothing here depends on them. */
                s->values[s->n_values++] = (unsigned char) c >= 0x7f ? '?' : c;
        }
        advance(s, 1);
        s->values[s->n_values++] = '\0'; /* in place of a quote */
        *ret = value;
        return 0;
}

static int scan_attributes(Scan *s) {
        int r;

        s->n_attributes = 0;
        s->n_values = 0;
        for (;;) {
                Attribute *a = s->attributes + s->n_attributes;
                bool blank = s->p < s->end && strchr(" \t\r\n", *s->p);

                skip_blanks(s);
                if (s->p >= s->end)
                        return truncated(s);
                if (*s->p == '>' || *s->p == '/')
                        return 0;
                if (!blank)
                        return refuse(s, "a blank is missing before an attribute");
                if (s->n_attributes >= ATTRIBUTES_MAX)
                        return refuse(s, "more than %u attributes in one element", ATTRIBUTES_MAX);
                r = scan_name(s, &a->name);
                if (r < 0)
                        return r;
                for (unsigned i = 0; i < s->n_attributes; i++)
                        if (slice_equal(s->attributes[i].name, a->name))
                                return refuse(s, "attribute %.*s is there twice", (int) a->name.n, a->name.s);
                skip_blanks(s);
                if (s->p >= s->end || *s->p != '=')
                        return refuse(s, "attribute %.*s has no value", (int) a->name.n, a->name.s);
                advance(s, 1);
                skip_blanks(s);
                r = scan_value(s, &a->value);
                if (r < 0)
                        return r;
                s->n_attributes++;
        }
}

static const char *attribute(const Scan *s, const char *name) {
        for (unsigned i = 0; i < s->n_attributes; i++)
                if (slice_is(s->attributes[i].name, name))
                        return s->attributes[i].value;
        return NULL;
}

static int check_number(const Scan *s, const char *name, uint64_t min, uint64_t max) {
        const char *value = attribute(s, name);
        uint64_t u;

        if (!value)
                return 0;
        if (text_parse_u64(value, &u) < 0 || u < min || u > max)
                return refuse(s, "%s=\"%.40s\" is not allowed; a number from %" PRIu64 " to %" PRIu64 " is", name,
                              value, min, max);
        return 0;
}

static int refuse_set(const Scan *s, const char *name, const char *value) {
        return refuse(s,
                      "%s=\"%.40s\" is not a set; sets are words of at most 8 hexadecimal digits, such as "
                      "\"0x0000000f,0xffffffff\", and have an end",
                      name, value);
}

/* "0x0000000f,,0xffffffff": hexadecimal words of 32 bits, the highest first. */
static int check_set(const Scan *s, const char *name) {
        const char *value = attribute(s, name);
        unsigned words = 1;

        if (!value)
                return 0;
        for (const char *p = value;;) {
                if (strncmp(p, "0x", 2) == 0) {
                        size_t n = strspn(p + 2, "0123456789abcdefABCDEF");

                        if (n == 0 || n > 8)
                                return refuse_set(s, name, value);
                        p += 2 + n;
                }
                if (*p == '\0')
                        break;
                if (*p != ',')
                        return refuse_set(s, name, value);
                p++;
                if (++words > SET_WORDS_MAX)
                        return refuse(s, "%s has more than %u words; numbers of CPUs and nodes are 0 to %u", name,
                                      SET_WORDS_MAX, BITSET_MAX - 1);
        }
        return 0;
}

static int check_object(const Scan *s) {
        const char *type = attribute(s, "type");
        bool numbered;

        if (!type)
                return refuse(s, "an object without a type");
        /* Node and Socket are what hwloc 1.x called them; hwloc takes types in any case, abbreviated. */
        numbered = strncasecmp(type, "pu", 2) == 0 || strncasecmp(type, "numa", 4) == 0 ||
                   strncasecmp(type, "node", 4) == 0;
        if (numbered && !attribute(s, "os_index"))
                return refuse(s, "a %.20s without os_index", type);
        return check_number(s, "os_index", 0, numbered ? BITSET_MAX - 1 : UINT32_MAX);
}

static int check_element(const Scan *s, Slice tag) {
        static const char *const sets[] = { "cpuset",  "complete_cpuset",  "online_cpuset",   "allowed_cpuset",
                                            "nodeset", "complete_nodeset", "allowed_nodeset", "initiator_cpuset" };
        int r;

        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                r = check_set(s, sets[i]);
                if (r < 0)
                        return r;
        }
        if (slice_is(tag, "object")) {
                r = check_object(s);
                if (r < 0)
                        return r;
        }
        if ((r = check_number(s, "nbobjs", 1, MATRIX_MAX)) < 0 ||
            (r = check_number(s, "local_memory", 0, MEMORY_MAX)) < 0 ||
            (r = check_number(s, "gp_index", 0, UINT64_MAX)) < 0)
                return r;
        return 0;
}

static void write_attribute(Scan *s, const Attribute *a) {
        static const char special[] = "&<>\"\n\r\t";
        static const char *const escapes[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#10;", "&#13;", "&#9;" };

        fprintf(s->out, " %.*s=\"", (int) a->name.n, a->name.s);
        for (const char *p = a->value; *p; p++) {
                const char *found = strchr(special, *p);

                if (found)
                        fputs(escapes[found - special], s->out);
                else
                        fputc(*p, s->out);
        }
        fputc('"', s->out);
}

static void write_start(Scan *s, Slice tag, bool but_length) {
        if (s->pending)
                fputs(">\n", s->out);
        s->pending = true;
        fprintf(s->out, "<%.*s", (int) tag.n, tag.s);
        for (unsigned pass = 0; pass < 2; pass++) /* hwloc wants to know the type before anything else */
                for (unsigned i = 0; i < s->n_attributes; i++) {
                        const Attribute *a = s->attributes + i;

                        if (slice_is(a->name, "type") == (pass == 0) && !(but_length && slice_is(a->name, "length")))
                                write_attribute(s, a);
                }
}

static void write_end(Scan *s, Slice tag) {
        if (s->pending)
                fputs("/>\n", s->out);
        else
                fprintf(s->out, "</%.*s>\n", (int) tag.n, tag.s);
        s->pending = false;
}

/* <indexes length="8">0 1 2 3 </indexes>: the only elements with text in them. */
static int scan_numbers(Scan *s, Slice tag, bool empty) {
        const char *start = s->p;
        size_t n = 0;

        while (!empty && s->p < s->end && *s->p != '<') {
                if (!isalnum((unsigned char) *s->p) && !strchr(" \t\r\n:-_.", *s->p))
                        return refuse(s, "<%.*s> has something else than numbers in it", (int) tag.n, tag.s);
                advance(s, 1);
                n++;
        }
        write_start(s, tag, true);
        fprintf(s->out, " length=\"%zu\">", n);
        s->pending = false;
        for (size_t i = 0; i < n; i++)
                fputc(strchr("\t\r\n", start[i]) ? ' ' : start[i], s->out);
        if (empty)
                write_end(s, tag);
        return 0;
}

static int check_version(const Scan *s, const char *version) {
        unsigned major, minor;

        if (!version)
                return 0; /* hwloc 1.x */
        if (sscanf(version, "%3u.%3u", &major, &minor) != 2 || major == 0)
                return refuse(s, "version=\"%.20s\" is none of hwloc's; 1.0 to 2.x are", version);
        if (major > 2)
                return refuse(s,
                              "version %u.%u of hwloc's XML cannot be read, only 1.x and 2.x; write it again with "
                              "lstopo --export-xml-flags v2",
                              major, minor);
        return 0;
}

static int write_root(Scan *s, Slice tag) {
        const char *version = attribute(s, "version");
        unsigned major, minor;
        int r;

        if (!slice_is(tag, "topology") && !slice_is(tag, "root"))
                return refuse(s, "the first element is <%.*s>, but hwloc's XML begins with <topology>", (int) tag.n,
                              tag.s);
        r = check_version(s, version);
        if (r < 0)
                return r;
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", s->out);
        if (version && sscanf(version, "%3u.%3u", &major, &minor) == 2)
                fprintf(s->out, "<topology version=\"%u.%u\">\n", major, minor);
        else
                fprintf(s->out, "<%.*s>\n", (int) tag.n, tag.s);
        return 0;
}

static int scan_start(Scan *s) {
        bool empty, numbers;
        Slice tag;
        int r;

        advance(s, 1);
        if ((r = scan_name(s, &tag)) < 0 || (r = scan_attributes(s)) < 0)
                return r;
        if (s->depth >= DEPTH_MAX)
                return refuse(s, "elements are nested more than %u deep", DEPTH_MAX);
        if (++s->n_elements > ELEMENTS_MAX)
                return refuse(s, "more than %u elements", ELEMENTS_MAX);
        empty = *s->p == '/';
        if (empty && !at(s, "/>"))
                return s->p + 1 >= s->end ? truncated(s) : refuse(s, "\"/\" is not followed by \">\"");
        r = s->depth == 0 ? write_root(s, tag) : s->dropping ? 0 : check_element(s, tag);
        if (r < 0)
                return r;
        advance(s, empty ? 2 : 1);
        if (!empty) {
                s->stack[s->depth] = tag;
                s->stack_line[s->depth++] = s->line;
        }
        if (s->dropping || (s->depth == 1 && !empty && s->n_elements == 1))
                return 0;
        if (slice_is(tag, "userdata")) {
                s->dropping = empty ? 0 : s->depth;
                return 0;
        }
        numbers = slice_is(tag, "indexes") || slice_is(tag, "u64values");
        if (numbers)
                return scan_numbers(s, tag, empty);
        write_start(s, tag, false);
        if (empty)
                write_end(s, tag);
        return 0;
}

static int scan_end(Scan *s) {
        Slice tag, open;
        int r;

        advance(s, 2);
        r = scan_name(s, &tag);
        if (r < 0)
                return r;
        skip_blanks(s);
        if (s->p >= s->end)
                return truncated(s);
        if (s->depth == 0)
                return refuse(s, "</%.*s> ends what did not begin", (int) tag.n, tag.s);
        open = s->stack[s->depth - 1];
        if (!slice_equal(open, tag) || *s->p != '>')
                return refuse(s, "<%.*s> of line %u is ended by </%.*s>", (int) open.n, open.s,
                              s->stack_line[s->depth - 1], (int) tag.n, tag.s);
        advance(s, 1);
        if (!s->dropping)
                write_end(s, tag);
        if (s->dropping == s->depth)
                s->dropping = 0;
        s->depth--;
        return 0;
}

/* hwloc compares the system id, which need not be there; declarations inside define entities, which nobody needs. */
static int scan_doctype(Scan *s) {
        const char *start = s->p;
        const char *id;

        while (s->p < s->end && *s->p != '>' && *s->p != '[')
                advance(s, 1);
        if (s->p >= s->end)
                return truncated(s);
        id = memmem(start, s->p - start, "SYSTEM", strlen("SYSTEM"));
        if (*s->p == '[' || !id || !memchr(id, '"', s->p - id) == !memchr(id, '\'', s->p - id))
                return refuse(s, "this DOCTYPE %s; allowed is none, or <!DOCTYPE topology SYSTEM \"hwloc2.dtd\">",
                              *s->p == '[' ? "declares things of its own" : "has no system id");
        advance(s, 1);
        return 0;
}

static int scan_markup(Scan *s) {
        if (at(s, "<?"))
                return skip_until(s, "?>");
        if (at(s, "<!--"))
                return skip_until(s, "-->");
        if (at(s, "<!DOCTYPE") && s->n_elements == 0)
                return scan_doctype(s);
        if (at(s, "<!"))
                return refuse(s, "a declaration or CDATA section, which hwloc's XML does not have");
        if (s->n_elements > 0 && s->depth == 0)
                return refuse(s, "something follows after the end of the topology");
        return at(s, "</") ? scan_end(s) : scan_start(s);
}

/* Binary junk, and the 16-bit encodings, show as NULs and control characters. */
static int check_characters(const Scan *s) {
        unsigned line = 1;

        for (const char *p = s->p; p < s->end; p++) {
                if (*p == '\n')
                        line++;
                else if ((unsigned char) *p < ' ' && *p != '\t' && *p != '\r')
                        return text_fail(-EBADMSG, s->message,
                                         "%s:%u: binary data (byte 0x%02x), not XML as UTF-8 text", s->label, line,
                                         (unsigned char) *p);
        }
        return 0;
}

static int scan_all(Scan *s) {
        int r;

        r = check_characters(s);
        if (r < 0)
                return r;
        for (;;) {
                skip_blanks(s);
                if (s->p >= s->end)
                        break;
                if (*s->p == '<') {
                        r = scan_markup(s);
                        if (r < 0)
                                return r;
                } else if (s->dropping)
                        advance(s, 1);
                else
                        return refuse(s, "text where hwloc's XML has none");
        }
        return s->depth > 0 || s->n_elements == 0 ? truncated(s) : 0;
}

int machine_check_xml(const char *label, const char *xml, size_t size, char **ret, size_t *ret_size,
                      char **ret_message) {
        Scan s = { .label = label, .p = xml, .end = xml + size, .line = 1, .message = ret_message };
        char *text = NULL;
        size_t n = 0;
        int r;

        if (size > MACHINE_XML_MAX)
                return text_fail(-EFBIG, ret_message,
                                 "%s: %zu bytes of XML are too many for a machine; %u MiB are allowed", label, size,
                                 MACHINE_XML_MAX >> 20);
        if (size >= 3 && memcmp(xml, "\xef\xbb\xbf", 3) == 0)
                s.p += 3;
        s.values = malloc(size + 1);
        s.out = open_memstream(&text, &n);
        r = s.values && s.out ? scan_all(&s) : -ENOMEM;
        if (s.out && ferror(s.out) != 0)
                r = -ENOMEM;
        if (s.out && fclose(s.out) != 0)
                r = -ENOMEM;
        free(s.values);
        if (r < 0) {
                free(text);
                return r;
        }
        *ret = text;
        *ret_size = n;
        return 0;
}
