/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job file goes through common/ini, its sections through the table below into small structs of text and numbers,
 * and those into a Job. Whatever can be judged without the machine is judged here, with file and line.
 *
 * Device= is read so: "none"; "KIND:N" and a single word that is a known kind ("ascend") ask for devices of a kind;
 * all else is a list of device names, one per rank in order. A single word that is no known kind is kept as a name:
 * whoever described devices of a kind of their own writes "edu:1". Names are resolved against the snapshot later.
 *
 * A traffic matrix is a second text: job_load() reads it, on the bus it travels beside the job. Job.text gets a Name=
 * when the file has none, because the file's name does not travel.
 */
#include "daemon/readers/jobfile.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <strings.h>

#include "common/fileio.h"
#include "daemon/readers/devices.h"

#define CPUS_MAX 65536
#define COMM_MAX 15U /* bytes the kernel keeps of a comm */
#define RATE_MAX 1e18

typedef struct RanksText {
        unsigned count, cpus, min_cpus;
        uint64_t memory;
        bool memory_wall;
        char *device, *match;
} RanksText;

typedef struct TrafficText {
        char *matrix;
        double ring, bytes[3];
        unsigned tp, pp, dp;
} TrafficText;

/* What pairs are assumed to exchange where a job names its degrees of parallelism and no bytes: a tensor group talks in
 * every layer, the others once per step. */
static const double default_bytes[3] = { 10e9, 1e9, 1e9 };

const ConfigItem job_items[] = {
        { "Job", "Name", CONFIG_STRING, 0, 0, NULL, offsetof(Job, name), NULL,
          "Name of the job, 1 to 64 letters, digits, '.', '_' and '-'; default: the file's name without .job" },
        { "Job", "Priority", CONFIG_UINT, 0, 100, "50", offsetof(Job, priority), NULL,
          "Jobs of higher priority get their CPUs first when CPUs are short" },
        { "Ranks", "Count", CONFIG_UINT, 1, JOB_RANKS_MAX, NULL, offsetof(RanksText, count), NULL,
          "Number of ranks; default: as many as Match= finds, at least 1" },
        { "Ranks", "CPUs", CONFIG_UINT, 1, CPUS_MAX, NULL, offsetof(RanksText, cpus), NULL,
          "Most logical CPUs of one rank, whole cores first; default: an even share" },
        { "Ranks", "MinCPUs", CONFIG_UINT, 1, CPUS_MAX, "1", offsetof(RanksText, min_cpus), NULL,
          "Least logical CPUs of one rank; fewer is infeasible" },
        { "Ranks", "Memory", CONFIG_SIZE, 0, 0x1p60, NULL, offsetof(RanksText, memory), NULL,
          "Host memory of one rank in bytes; K M G T P are powers of 1024" },
        { "Ranks", "MemoryWall", CONFIG_BOOL, 0, 0, "no", offsetof(RanksText, memory_wall), NULL,
          "Whether a rank that qschedctl run starts may have memory on its plan's nodes alone, as long as they have room; no: they are preferred" },
        { "Ranks", "Device", CONFIG_STRING, 0, 0, NULL, offsetof(RanksText, device), NULL,
          "KIND or KIND:N devices for each rank, a list of device names (one per rank, in order), or none" },
        { "Ranks", "Match", CONFIG_STRING, 0, 0, NULL, offsetof(RanksText, match), NULL,
          "Running processes that are these ranks: pid:N,N-N cmdline:GLOB comm:GLOB cgroup:GLOB or unit:GLOB" },
        { "Traffic", "Matrix", CONFIG_STRING, 0, 0, NULL, offsetof(TrafficText, matrix), NULL,
          "File with ranks x ranks numbers, bytes per second, blanks between, # comments" },
        { "Traffic", "Ring", CONFIG_RATE, 0, RATE_MAX, NULL, offsetof(TrafficText, ring), NULL,
          "Bytes per second from each rank to the next; K M G T P are powers of 1000" },
        { "Traffic", "TP", CONFIG_UINT, 1, JOB_RANKS_MAX, NULL, offsetof(TrafficText, tp), NULL,
          "Tensor parallel degree; rank = tp + TP*(dp + DP*pp)" },
        { "Traffic", "PP", CONFIG_UINT, 1, JOB_RANKS_MAX, NULL, offsetof(TrafficText, pp), NULL,
          "Pipeline parallel degree" },
        { "Traffic", "DP", CONFIG_UINT, 1, JOB_RANKS_MAX, NULL, offsetof(TrafficText, dp), NULL,
          "Data parallel degree" },
        { "Traffic", "TPBytes", CONFIG_RATE, 0, RATE_MAX, NULL, offsetof(TrafficText, bytes[0]), NULL,
          "Bytes per second and pair in a tensor group; without any of the three: 10G, 1G, 1G" },
        { "Traffic", "PPBytes", CONFIG_RATE, 0, RATE_MAX, NULL, offsetof(TrafficText, bytes[1]), NULL,
          "Bytes per second and pair of neighbouring pipeline stages" },
        { "Traffic", "DPBytes", CONFIG_RATE, 0, RATE_MAX, NULL, offsetof(TrafficText, bytes[2]), NULL,
          "Bytes per second and pair in a data parallel group" },
        {},
};

typedef struct JobReader {
        const Ini *ini;
        Job *job;
        const char *path; /* where a matrix is read beside; NULL: it is given in matrix_text */
        const char *matrix_text;
        char **ret_message;
} JobReader;

#define reader_fail(r, line, format, ...) ini_fail((r)->ret_message, (r)->ini, line, format, ##__VA_ARGS__)

/* One device kind with its number: "ascend:2". */
static int parse_kind(JobReader *r, unsigned line, const char *word, Ranks *ranks) {
        const char *colon = strchr(word, ':');
        unsigned n;

        if (!colon)
                n = 1;
        else if (text_parse_uint(colon + 1, 1, JOB_RANKS_MAX, &n) < 0)
                return reader_fail(r, line, "Device=%.40s: the number after KIND: is 1 to %u", word, JOB_RANKS_MAX);
        ranks->device_kind = colon ? strndup(word, (size_t) (colon - word)) : strdup(word);
        if (!ranks->device_kind)
                return -ENOMEM;
        if (!name_is_valid(ranks->device_kind))
                return reader_fail(r, line, "Device=%.40s: a device kind is " NAME_RULE, word);
        ranks->n_devices = n;
        return 0;
}

static int check_device_names(JobReader *r, unsigned line, const Ranks *ranks) {
        size_t n = strv_length(ranks->device_names);

        for (size_t i = 0; i < n; i++) {
                if (!name_is_valid(ranks->device_names[i]))
                        return reader_fail(r, line, "Device: %.70s is no device name, which is " NAME_RULE,
                                           ranks->device_names[i]);
                if (streq(ranks->device_names[i], "none"))
                        return reader_fail(r, line, "Device: \"none\" stands alone, not in a list of devices");
                for (size_t j = 0; j < i; j++)
                        if (streq(ranks->device_names[i], ranks->device_names[j]))
                                return reader_fail(
                                        r, line,
                                        "Device names %s twice; ranks that share a device go into Ranks sections of their own",
                                        ranks->device_names[i]);
        }
        if (ranks->count > 0 && n != ranks->count)
                return reader_fail(r, line, "Device names %zu devices for Count=%u; name one per rank", n,
                                   ranks->count);
        return 0;
}

static int parse_device(JobReader *r, unsigned line, const char *text, Ranks *ranks) {
        _cleanup_(strv_freep) char **words = NULL;
        int k;

        k = strv_split(text, " \t", &words);
        if (k < 0)
                return k;
        if (!words[0])
                return reader_fail(r, line,
                                   "Device= has no value, allowed: KIND, KIND:N, a list of device names, or none");
        if (!words[1] && streq(words[0], "none"))
                return 0;
        if (!words[1] && (strchr(words[0], ':') || pci_kind_known(words[0])))
                return parse_kind(r, line, words[0], ranks);
        ranks->device_names = TAKE_PTR(words);
        return check_device_names(r, line, ranks);
}

static int add_pid(JobReader *r, unsigned line, pid_t pid, Match *m) {
        for (size_t i = 0; i < m->n_pids; i++)
                if (m->pids[i] == pid)
                        return reader_fail(r, line, "Match=pid: %d is there twice", (int) pid);
        if (m->n_pids >= JOB_RANKS_MAX)
                return reader_fail(r, line, "Match=pid: more than %u processes are named", JOB_RANKS_MAX);
        m->pids[m->n_pids++] = pid;
        return 0;
}

/* "N" or "N-N" */
static int parse_pid_range(JobReader *r, unsigned line, char *word, Match *m) {
        char *dash = strchr(word, '-');
        _cleanup_free_ char *first_text = strndup(word, dash && dash > word ? (size_t) (dash - word) : strlen(word));
        pid_t first, last;
        int k = 0;

        if (!first_text)
                return -ENOMEM;
        if (text_parse_pid(first_text, &first) < 0 || text_parse_pid(dash ? dash + 1 : word, &last) < 0)
                return reader_fail(r, line, "Match=pid: %.40s is no process id, which is a number from 1 to %d", word,
                                   INT_MAX);
        if (last < first)
                return reader_fail(r, line, "Match=pid: %.40s: the range ends before it begins", word);
        for (int64_t pid = first; pid <= last && k >= 0; pid++)
                k = add_pid(r, line, (pid_t) pid, m);
        return k;
}

static int parse_pids(JobReader *r, unsigned line, const char *text, Match *m) {
        _cleanup_(strv_freep) char **words = NULL;
        int k;

        k = strv_split(text, ", \t", &words);
        if (k < 0)
                return k;
        m->pids = calloc(JOB_RANKS_MAX, sizeof(*m->pids));
        if (!m->pids)
                return -ENOMEM;
        for (char **w = words; w && *w && k >= 0; w++)
                k = parse_pid_range(r, line, *w, m);
        if (k >= 0 && m->n_pids == 0)
                return reader_fail(r, line, "Match=pid: names no process; write pid:N or pid:N,N-N,…");
        return k;
}

static int parse_match(JobReader *r, unsigned line, const char *text, Ranks *ranks) {
        const char *colon = strchr(text, ':'), *pattern = colon ? colon + 1 : "";
        Match *m;

        ranks->match = m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        for (m->kind = 0; m->kind < _MATCH_MAX; m->kind++)
                if (colon && strlen(match_names[m->kind]) == (size_t) (colon - text) &&
                    strncmp(match_names[m->kind], text, (size_t) (colon - text)) == 0)
                        break;
        if (m->kind == _MATCH_MAX)
                return reader_fail(
                        r, line, "Match=%.40s: allowed: pid:N,N-N cmdline:GLOB comm:GLOB cgroup:GLOB unit:GLOB", text);
        if (m->kind == MATCH_PID)
                return parse_pids(r, line, pattern, m);
        if (*pattern == '\0')
                return reader_fail(r, line, "Match=%s: the pattern after the colon is empty", match_names[m->kind]);
        if (m->kind == MATCH_COMM && !strpbrk(pattern, "*?[\\") && strlen(pattern) > COMM_MAX)
                return reader_fail(
                        r, line,
                        "Match=comm:%.40s can never match: the kernel keeps %u bytes of a comm; use %.15s or %.14s*",
                        pattern, COMM_MAX, pattern, pattern);
        if (m->kind == MATCH_CGROUP && !strchr("/*?[", *pattern))
                return reader_fail(r, line, "Match=cgroup:%.40s: a cgroup path starts with '/'", pattern);
        m->pattern = strdup(pattern);
        return m->pattern ? 0 : -ENOMEM;
}

static int check_ranks(JobReader *r, const IniSection *section, const RanksText *t, Ranks *ranks) {
        int k;

        ranks->count = t->count;
        ranks->cpus = t->cpus;
        ranks->min_cpus = t->min_cpus;
        ranks->memory = t->memory;
        ranks->memory_wall = t->memory_wall;
        ranks->line = section->line;
        if (t->cpus > 0 && t->min_cpus > t->cpus)
                return reader_fail(r, ini_item_line(section, "MinCPUs"), "MinCPUs=%u is more than CPUs=%u", t->min_cpus,
                                   t->cpus);
        if (t->device) {
                k = parse_device(r, ini_item_line(section, "Device"), t->device, ranks);
                if (k < 0)
                        return k;
        }
        return t->match ? parse_match(r, ini_item_line(section, "Match"), t->match, ranks) : 0;
}

static int read_ranks(JobReader *r, const IniSection *section) {
        RanksText t = {};
        Ranks *v;
        int k;

        if (section->args && section->args[1])
                return reader_fail(r, section->line, "[Ranks NAME] takes one name");
        if (section->args && !name_is_valid(section->args[0]))
                return reader_fail(r, section->line, "[Ranks %.70s]: the name is " NAME_RULE, section->args[0]);
        if (r->job->n_ranks == JOB_RANKS_MAX)
                return reader_fail(r, section->line, "more than %u [Ranks] sections, and each has a rank",
                                   JOB_RANKS_MAX);
        v = realloc(r->job->ranks, (r->job->n_ranks + 1) * sizeof(*v));
        if (!v)
                return -ENOMEM;
        r->job->ranks = v;
        v += r->job->n_ranks++;
        *v = (Ranks){};
        if (section->args) {
                v->name = strdup(section->args[0]);
                if (!v->name)
                        return -ENOMEM;
        }
        k = config_defaults(job_items, "Ranks", &t);
        if (k >= 0)
                k = config_section_fill(r->ini, section, job_items, &t, r->ret_message);
        if (k >= 0)
                k = check_ranks(r, section, &t, v);
        config_done(job_items, "Ranks", &t);
        return k;
}

/* The next word of a matrix; lines are counted on the way. NULL at the end. */
static const char *next_word(const char **p, unsigned *line, size_t *ret_size) {
        const char *s = *p;

        while (*s && (strchr(" \t\r\n", *s) || *s == '#')) {
                if (*s == '#')
                        s += strcspn(s, "\n");
                else if (*s++ == '\n')
                        (*line)++;
        }
        *ret_size = strcspn(s, " \t\r\n#");
        *p = s + *ret_size;
        return *ret_size > 0 ? s : NULL;
}

static int parse_cell(const char *s, size_t size, double *ret) {
        char word[64];
        uint64_t v;

        if (size >= sizeof(word))
                return -EINVAL;
        memcpy(word, s, size);
        word[size] = '\0';
        if (text_parse_double(word, ret) < 0) {
                if (text_parse_size(word, 1000, &v) < 0)
                        return -EINVAL;
                *ret = (double) v;
        }
        return *ret >= 0 && *ret <= RATE_MAX ? 0 : -ERANGE;
}

/* Square, one row to a line. */
static int parse_matrix(JobReader *r, const char *name, const char *text, Traffic *t) {
        const char *p = text, *word;
        unsigned line = 1, row_line = 0, n = 0, row = 0, column = 0;
        size_t size;

        for (const char *q = text; (word = next_word(&q, &line, &size)) && (row_line == 0 || line == row_line); n++)
                row_line = line;
        if (n == 0)
                return text_fail(-EBADMSG, r->ret_message, "%s: the traffic matrix has no numbers", name);
        if (n > JOB_RANKS_MAX)
                return text_fail(-EBADMSG, r->ret_message, "%s:%u: a traffic matrix has at most %u columns", name,
                                 row_line, JOB_RANKS_MAX);
        t->matrix = calloc((size_t) n * n, sizeof(double));
        if (!t->matrix)
                return -ENOMEM;
        t->n = n;
        line = 1;
        while ((word = next_word(&p, &line, &size))) {
                if (row_line != line && column > 0) {
                        if (column != n)
                                break;
                        row++;
                        column = 0;
                }
                row_line = line;
                if (row == n || column == n)
                        return text_fail(-EBADMSG, r->ret_message,
                                         "%s:%u: the traffic matrix must be %u x %u like its first row, here is more",
                                         name, line, n, n);
                if (parse_cell(word, size, &t->matrix[(size_t) row * n + column]) < 0)
                        return text_fail(-EBADMSG, r->ret_message,
                                         "%s:%u: %.*s is not bytes per second, allowed: 0 to 1e18", name, line,
                                         (int) MIN(size, (size_t) 40), word);
                column++;
        }
        if (row != n - 1 || column != n)
                return text_fail(-EBADMSG, r->ret_message,
                                 "%s:%u: the traffic matrix must be %u x %u like its first row, row %u has %u numbers",
                                 name, row_line, n, n, row + 1, column);
        return 0;
}

static int load_matrix(JobReader *r, const char *name) {
        const char *slash = strrchr(r->path, '/');
        _cleanup_free_ char *dir = strndup(r->path, slash ? (size_t) (slash - r->path) + 1 : 0), *path = NULL;
        size_t size;
        int k;

        if (!dir)
                return -ENOMEM;
        path = *name == '/' ? strdup(name) : path_join(dir, name);
        if (!path)
                return -ENOMEM;
        k = read_text_file(path, FILEIO_MAX_DEFAULT, &r->job->matrix_text, &size, r->ret_message);
        if (k >= 0 && strlen(r->job->matrix_text) != size)
                return text_fail(-EBADMSG, r->ret_message, "%s: a traffic matrix is text, here is a NUL byte", path);
        return k;
}

static int read_matrix(JobReader *r, unsigned line, const char *name) {
        int k;

        if (*name == '\0')
                return reader_fail(r, line, "Matrix= has no value, which is the name of a file");
        if (r->path) {
                k = load_matrix(r, name);
                if (k < 0)
                        return k;
        } else if (!r->matrix_text || !*r->matrix_text)
                return reader_fail(r, line, "Matrix=%s: the content of that file did not come with the job", name);
        else {
                r->job->matrix_text = strdup(r->matrix_text);
                if (!r->job->matrix_text)
                        return -ENOMEM;
        }
        return parse_matrix(r, name, r->job->matrix_text, &r->job->traffic);
}

static int fill_traffic(JobReader *r, const IniSection *section, const TrafficText *t) {
        bool bytes = ini_find_item(section, "TPBytes") || ini_find_item(section, "PPBytes") ||
                     ini_find_item(section, "DPBytes");
        bool ring = ini_find_item(section, "Ring"), parallel = bytes || t->tp || t->pp || t->dp;
        const double *b = bytes ? t->bytes : default_bytes;
        Traffic *traffic = &r->job->traffic;

        if ((t->matrix != NULL) + ring + parallel != 1)
                return reader_fail(r, section->line,
                                   "[Traffic] takes exactly one of Matrix=, Ring=, or TP= with PP= and DP=");
        if (t->matrix) {
                traffic->kind = TRAFFIC_MATRIX;
                return read_matrix(r, ini_item_line(section, "Matrix"), t->matrix);
        }
        traffic->kind = ring ? TRAFFIC_RING : TRAFFIC_PARALLEL;
        traffic->ring = t->ring;
        if (parallel) {
                traffic->tp = MAX(t->tp, 1U);
                traffic->pp = MAX(t->pp, 1U);
                traffic->dp = MAX(t->dp, 1U);
                traffic->tp_bytes = b[0];
                traffic->pp_bytes = b[1];
                traffic->dp_bytes = b[2];
        }
        return 0;
}

static int read_traffic(JobReader *r, const IniSection *section) {
        TrafficText t = {};
        int k;

        if (section->args)
                return reader_fail(r, section->line, "[Traffic] takes no name");
        k = config_section_fill(r->ini, section, job_items, &t, r->ret_message);
        if (k >= 0)
                k = fill_traffic(r, section, &t);
        config_done(job_items, "Traffic", &t);
        return k;
}

static int read_section(JobReader *r, const IniSection *section) {
        if (strcasecmp(section->type, "Ranks") == 0)
                return read_ranks(r, section);
        if (strcasecmp(section->type, "Traffic") == 0)
                return read_traffic(r, section);
        if (strcasecmp(section->type, "Job") != 0)
                return reader_fail(r, section->line, "[%s] is not known in a job file, allowed: Job, Ranks, Traffic",
                                   section->type);
        if (section->args)
                return reader_fail(r, section->line, "[Job] takes no name; write Name= below it");
        return config_section_fill(r->ini, section, job_items, r->job, r->ret_message);
}

/* Counts that do not fit each other; what depends on how many processes match is found out when they are matched. */
static int check_counts(JobReader *r) {
        const Traffic *t = &r->job->traffic;
        const IniSection *traffic = ini_find_section(r->ini, "Traffic");
        unsigned n = job_count(r->job, NULL);
        uint64_t product = (uint64_t) t->tp * t->pp * t->dp;

        if (r->job->n_ranks == 0)
                return text_fail(-EBADMSG, r->ret_message, "%s: a job needs at least one [Ranks] section",
                                 r->ini->label);
        if (n > JOB_RANKS_MAX)
                return text_fail(-EBADMSG, r->ret_message, "%s: the job has %u ranks, at most %u are allowed",
                                 r->ini->label, n, JOB_RANKS_MAX);
        if (t->kind == TRAFFIC_PARALLEL && product > JOB_RANKS_MAX)
                return reader_fail(r, traffic->line, "TP*PP*DP is %" PRIu64 ", at most %u ranks are allowed", product,
                                   JOB_RANKS_MAX);
        for (size_t i = 0; i < r->job->n_ranks; i++)
                if (r->job->ranks[i].count == 0)
                        return 0;
        if (t->kind == TRAFFIC_PARALLEL && product != n)
                return reader_fail(r, traffic->line, "TP*PP*DP is %" PRIu64 ", but the job has %u ranks", product, n);
        if (t->kind == TRAFFIC_MATRIX && t->n != n)
                return reader_fail(r, traffic->line, "Matrix= has %u rows, but the job has %u ranks", t->n, n);
        return 0;
}

static int set_name(JobReader *r) {
        const IniSection *section = ini_find_section(r->ini, "Job");
        const char *slash = strrchr(r->ini->label, '/'), *base = slash ? slash + 1 : r->ini->label;
        size_t n = strlen(base);

        if (r->job->name) {
                if (!name_is_valid(r->job->name))
                        return reader_fail(r, ini_item_line(section, "Name"), "Name=%.70s: a job's name is " NAME_RULE,
                                           r->job->name);
                return 0;
        }
        if (n > 4 && streq(base + n - 4, ".job"))
                n -= 4;
        r->job->name = strndup(base, n);
        if (!r->job->name)
                return -ENOMEM;
        if (!name_is_valid(r->job->name))
                return text_fail(-EBADMSG, r->ret_message,
                                 "%s: the file's name is no name for a job, which is " NAME_RULE
                                 "; give one with Name= in [Job]",
                                 r->ini->label);
        return 0;
}

/* The text as given, plus Name= where it has none: right below [Job], or in a [Job] section at the end. */
static int set_text(JobReader *r, const char *text, size_t size) {
        const IniSection *section = ini_find_section(r->ini, "Job");
        size_t at = size;
        int k;

        if (section && ini_find_item(section, "Name")) {
                r->job->text = strndup(text, size);
                return r->job->text ? 0 : -ENOMEM;
        }
        if (section) {
                const char *p = text;

                for (unsigned i = 0; i < section->line && p; i++) {
                        p = memchr(p, '\n', (size_t) (text + size - p));
                        p = p ? p + 1 : NULL;
                }
                at = p ? (size_t) (p - text) : size;
        }
        k = asprintf(&r->job->text, "%.*s%s%sName=%s\n%.*s", (int) at, text, at > 0 && text[at - 1] != '\n' ? "\n" : "",
                     section ? "" : "[Job]\n", r->job->name, (int) (size - at), text + at);
        if (k < 0) {
                r->job->text = NULL;
                return -ENOMEM;
        }
        return 0;
}

static int read_job(JobReader *r, const char *text, size_t size) {
        int k;

        k = config_defaults(job_items, "Job", r->job);
        for (size_t i = 0; i < r->ini->n_sections && k >= 0; i++)
                k = read_section(r, &r->ini->sections[i]);
        if (k >= 0)
                k = check_counts(r);
        if (k >= 0)
                k = set_name(r);
        if (k >= 0)
                k = set_text(r, text, size);
        return k;
}

static int parse(const char *label, const char *path, const char *text, size_t size, const char *matrix_text, Job **ret,
                 char **ret_message) {
        _cleanup_(ini_freep) Ini *ini = NULL;
        _cleanup_(job_freep) Job *job = NULL;
        int k;

        k = ini_parse(label, text, size, &ini, ret_message);
        if (k < 0)
                return k;
        job = calloc(1, sizeof(*job));
        if (!job)
                return -ENOMEM;
        JobReader r = { .ini = ini, .job = job, .path = path, .matrix_text = matrix_text, .ret_message = ret_message };
        k = read_job(&r, text, size);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(job);
        return 0;
}

int job_parse(const char *label, const char *text, size_t size, const char *matrix_text, Job **ret,
              char **ret_message) {
        return parse(label, NULL, text, size, matrix_text, ret, ret_message);
}

int job_load(const char *path, Job **ret, char **ret_message) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r;

        if (streq(path, "-")) {
                r = read_stdin(INI_FILE_MAX, &text, &size, ret_message);
                path = "stdin"; /* also the name of a job without Name= */
        } else
                r = read_text_file(path, INI_FILE_MAX, &text, &size, ret_message);
        if (r < 0)
                return r;
        return parse(path, path, text, size, NULL, ret, ret_message);
}
