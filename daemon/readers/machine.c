/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines by hwloc: the running system, a captured /sys, XML, the XML inside a record. This file owns the doors and
 * hwloc's life (environment, load, destroy); machine-topology.c translates, machine-check.c stands before outside XML.
 *
 * hwloc takes its orders from the environment, so each load sets a few variables and puts the old values back. That
 * is not safe while another thread calls getenv(): the daemon loads at start and on reload from its loop while its
 * worker computes (which reads no environment), the tools have one thread. What the variables say: discover by the
 * linux component only (no CPUID on every CPU of a busy host, and no plugin, for those load vendor libraries into this
 * process), keep quiet, keep device memory as nodes, and read XML by hwloc's own parser, which behaves the same on
 * hosts with and without the libxml plugin.
 */
#include "daemon/readers/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/machine-internal.h"
#include "policy/record.h"

#define RECORD_MAX (64U << 20)

typedef struct Variable {
        const char *name, *value; /* NULL: not set */
        char *old;
} Variable;

static void environment_enter(Variable *v, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const char *old = getenv(v[i].name);

                v[i].old = old ? strdup(old) : NULL;
                if (v[i].value)
                        (void) setenv(v[i].name, v[i].value, true);
                else
                        (void) unsetenv(v[i].name);
        }
}

static void environment_leave(Variable *v, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (v[i].old)
                        (void) setenv(v[i].name, v[i].old, true);
                else
                        (void) unsetenv(v[i].name);
                free(v[i].old);
        }
}

/* I/O as hwloc finds it, but no block and network devices; all that is disallowed stays visible. */
static int hwloc_prepare(hwloc_topology_t h, const MachineSource *s) {
        unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;

        if (hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
            hwloc_topology_set_type_filter(h, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0 ||
            hwloc_topology_set_type_filter(h, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE) < 0 ||
            hwloc_topology_set_type_filter(h, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
                return -1;
        if (s->this_system)
                flags |= HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM;
        if (hwloc_topology_set_flags(h, flags) < 0)
                return -1;
        /* The terminating NUL counts, says hwloc. */
        return s->xml ? hwloc_topology_set_xmlbuffer(h, s->xml, (int) s->size + 1) : 0;
}

static int hwloc_open(const MachineSource *s, hwloc_topology_t *ret) {
        Variable v[] = {
                { "HWLOC_COMPONENTS", s->xml ? NULL : "linux,stop", NULL },
                { "HWLOC_FSROOT", s->fsroot && *s->fsroot ? s->fsroot : NULL, NULL },
                { "HWLOC_XMLFILE", NULL, NULL },
                { "HWLOC_SYNTHETIC", NULL, NULL },
                { "HWLOC_THISSYSTEM", NULL, NULL },
                { "HWLOC_CPUID_PATH", NULL, NULL },
                { "HWLOC_PCI_LOCALITY", NULL, NULL },
                { "HWLOC_LIBXML", "0", NULL },
                { "HWLOC_HIDE_ERRORS", "2", NULL },
                { "HWLOC_PLUGINS_PATH", "/nonexistent", NULL },
                { "HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", NULL },
        };
        hwloc_topology_t h = NULL;
        int r = 0;

        environment_enter(v, ELEMENTSOF(v));
        errno = 0;
        if (hwloc_topology_init(&h) < 0 || hwloc_prepare(h, s) < 0 || hwloc_topology_load(h) < 0)
                r = errno > 0 ? -errno : -EIO;
        environment_leave(v, ELEMENTSOF(v));
        if (r < 0) {
                if (h)
                        hwloc_topology_destroy(h);
                return r == -ENOMEM ? r : -EBADMSG;
        }
        *ret = h;
        return 0;
}

static int machine_load(const MachineSource *s, Topology **ret, char **ret_message) {
        hwloc_topology_t h;
        int r;

        r = hwloc_open(s, &h);
        if (r < 0)
                return text_fail(r, ret_message, "%s: hwloc cannot read %s as a machine", s->label,
                                 s->this_system ? "/sys"
                                 : s->xml       ? "this XML"
                                                : "this directory");
        if (!!hwloc_topology_is_thissystem(h) != s->this_system)
                r = text_fail(-EBADMSG, ret_message, "%s: hwloc looked at %s instead of what it was given", s->label,
                              s->this_system ? "something else" : "the running system");
        else
                r = machine_convert(h, s, ret, ret_message);
        hwloc_topology_destroy(h);
        return r;
}

static int machine_try(void *userdata, char **ret_message) {
        Topology *t;

        return machine_load(userdata, &t, ret_message); /* the process ends with it */
}

/* A thread's mask is what its creator wished, cut to the cpuset; a wish for everything shows the cpuset itself, also
 * where no cgroup file system is mounted for hwloc to look into. Done in a thread of its own, which then ends. */
static void *probe_cpuset(void *userdata) {
        Bitset *cpus = userdata;
        _cleanup_(bitset_done) Bitset all = BITSET_EMPTY;

        if (bitset_set_range(&all, 0, BITSET_MAX / 8 - 1) < 0 || bitset_setaffinity(0, &all) < 0 ||
            bitset_getaffinity(0, cpus) < 0)
                bitset_zero(cpus);
        return NULL;
}

/* Mems_allowed_list of this process: what its cpuset grants, whatever its memory policy is. */
static int read_mems_allowed(Bitset *ret) {
        _cleanup_free_ char *text = NULL;
        char *line, *end;
        int r;

        r = read_file_at(AT_FDCWD, "/proc/self/status", FILEIO_MAX_DEFAULT, &text, NULL);
        if (r < 0)
                return r;
        line = strstr(text, "\nMems_allowed_list:");
        if (!line)
                return -ENODATA;
        line += strlen("\nMems_allowed_list:");
        line += strspn(line, " \t");
        end = strchr(line, '\n');
        if (end)
                *end = '\0';
        return bitset_parse(line, ret);
}

static void narrow_to_this_process(Topology *t) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY, mems = BITSET_EMPTY;
        pthread_t thread;

        if (pthread_create(&thread, NULL, probe_cpuset, &cpus) == 0) {
                (void) pthread_join(thread, NULL);
                if (bitset_intersects(&t->allowed, &cpus))
                        bitset_and(&t->allowed, &cpus);
        }
        if (read_mems_allowed(&mems) >= 0 && bitset_intersects(&t->allowed_nodes, &mems)) {
                bitset_and(&t->allowed_nodes, &mems);
                for (unsigned i = 0; i < t->n_nodes; i++)
                        t->nodes[i].allowed = bitset_test(&t->allowed_nodes, t->nodes[i].os);
        }
}

int machine_read_this_system(Topology **ret, char **ret_message) {
        MachineSource s = { .label = "this system", .fsroot = "", .this_system = true };
        int r;

        r = machine_load(&s, ret, ret_message);
        if (r < 0)
                return r;
        narrow_to_this_process(*ret);
        (void) machine_refresh_memory(*ret);
        return 0;
}

/* Bytes behind "KEY:" in a meminfo text, which counts in kB; 0 when it is not there. */
static uint64_t meminfo_bytes(const char *text, const char *key) {
        const char *p = strstr(text, key);

        return p ? strtoull(p + strlen(key), NULL, 10) << 10 : 0;
}

/* Free now or freed at once when asked for: file pages that nobody used lately and half of the reclaimable slabs. */
static uint64_t meminfo_free(const char *text) {
        return meminfo_bytes(text, "MemFree:") + meminfo_bytes(text, "Inactive(file):") +
               meminfo_bytes(text, "SReclaimable:") / 2;
}

int machine_refresh_memory(Topology *t) {
        int ret = 0;

        if (!t->is_this_system)
                return 0;
        for (unsigned i = 0; i < t->n_nodes; i++) {
                _cleanup_free_ char *text = NULL;
                char path[64];
                int r;

                (void) snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", t->nodes[i].os);
                r = read_file_at(AT_FDCWD, path, FILEIO_MAX_DEFAULT, &text, NULL);
                if (r == -ENOENT && t->n_nodes == 1) /* a kernel without NUMA */
                        r = read_file_at(AT_FDCWD, "/proc/meminfo", FILEIO_MAX_DEFAULT, &text, NULL);
                if (r < 0)
                        ret = ret < 0 ? ret : r;
                t->nodes[i].free = r < 0 ? UINT64_MAX : meminfo_free(text);
        }
        return ret;
}

int machine_read_xml(const char *label, const char *xml, size_t size, Topology **ret, char **ret_message) {
        _cleanup_free_ char *plain = NULL;
        MachineSource s = { .label = label };
        int r;

        r = machine_check_xml(label, xml, size, &plain, &s.size, ret_message);
        if (r < 0)
                return r;
        s.xml = plain;
        r = machine_guard(label, machine_try, &s, ret_message);
        if (r < 0)
                return r;
        return machine_load(&s, ret, ret_message);
}

static bool is_captured(const char *path) {
        _cleanup_free_ char *cpus = path_join(path, "sys/devices/system/cpu");
        struct stat st;

        return cpus && stat(cpus, &st) >= 0 && S_ISDIR(st.st_mode);
}

/* Captured systems come as archives with one directory at the top: path itself, or what is right below it. Returns
 * how many there are, 0 or more; *ret is one of them. */
static int find_captured(const char *path, char **ret) {
        struct dirent **list = NULL;
        int n, found = 0;

        if (is_captured(path))
                return (*ret = strdup(path)) ? 1 : -ENOMEM;
        n = scandir(path, &list, NULL, alphasort);
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *below = list[i]->d_name[0] != '.' ? path_join(path, list[i]->d_name) : NULL;

                free(list[i]);
                if (!below || !is_captured(below))
                        continue;
                if (found++ == 0)
                        *ret = TAKE_PTR(below);
        }
        free(list);
        return found;
}

static int machine_read_directory(const char *path, Topology **ret, char **ret_message) {
        _cleanup_free_ char *captured = NULL, *root = NULL;
        MachineSource s = {};
        int r;

        r = find_captured(path, &captured);
        if (r < 0)
                return r;
        if (r == 0)
                return text_fail(-EBADMSG, ret_message,
                                 "%s: not a captured system: there is neither %s/sys/devices/system/cpu nor a "
                                 "subdirectory that has it; give such a directory, an hwloc XML file or a record",
                                 path, path);
        if (r > 1)
                return text_fail(-EBADMSG, ret_message,
                                 "%s: %d captured systems are below it, each with sys/devices/system/cpu; give one of "
                                 "them, such as %s",
                                 path, r, captured);
        root = realpath(captured, NULL);
        if (!root)
                return -ENOMEM;
        if (streq(root, "/"))
                return text_fail(-EBADMSG, ret_message,
                                 "%s: this is the running system, not a captured one; leave --machine out", path);
        s = (MachineSource){ .label = captured, .fsroot = root };
        r = machine_guard(captured, machine_try, &s, ret_message);
        if (r < 0)
                return r;
        return machine_load(&s, ret, ret_message);
}

static int machine_read_record(const char *path, const char *text, size_t size, Topology **ret, json_t **ret_record,
                               char **ret_message) {
        _cleanup_free_ char *what = NULL;
        json_error_t e;
        json_t *root;
        const char *xml;
        int r;

        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
        if (!root)
                return text_fail(-EBADMSG, ret_message, "%s:%d: this is no record, for it is no JSON: %s", path, e.line,
                                 e.text);
        r = record_machine_xml(root, &xml, &what);
        if (r < 0)
                (void) text_fail(r, ret_message, "%s: %s", path, strempty(what));
        else
                r = machine_read_xml(path, xml, strlen(xml), ret, ret_message);
        if (r < 0) {
                json_decref(root);
                return r;
        }
        *ret_record = root;
        return 0;
}

static int read_failed(const char *path, int r, char **ret_message) {
        switch (r) {
        case -EFBIG:
                return text_fail(r, ret_message, "%s: too big for a machine; a record may have %u MiB, XML %u MiB",
                                 path, RECORD_MAX >> 20, MACHINE_XML_MAX >> 20);
        case -EBADFD: return text_fail(r, ret_message, "%s: neither a regular file nor a directory", path);
        default: return text_fail(r, ret_message, "%s: %s", path, strerror(-r));
        }
}

int machine_read_path(const char *path, Topology **ret, json_t **ret_record, char **ret_message) {
        _cleanup_free_ char *text = NULL;
        size_t size, skip;
        json_t *record = NULL;
        int r;

        r = read_regular_file(path, RECORD_MAX, &text, &size);
        if (r == -EISDIR)
                r = machine_read_directory(path, ret, ret_message);
        else if (r < 0)
                return read_failed(path, r, ret_message);
        else {
                skip = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
                skip += strspn(text + skip, " \t\r\n");
                if (text[skip] == '<')
                        r = machine_read_xml(path, text, size, ret, ret_message);
                else if (text[skip] == '{')
                        r = machine_read_record(path, text + skip, size - skip, ret, &record, ret_message);
                else
                        r = text_fail(
                                -EBADMSG, ret_message,
                                "%s: not a machine: it begins neither as hwloc XML (\"<\") nor as a record (\"{\")",
                                path);
        }
        if (r < 0)
                return r;
        if (ret_record)
                *ret_record = record;
        else
                json_decref(record);
        return 0;
}

int machine_export_xml(char **ret, char **ret_message) {
        MachineSource s = { .label = "this system", .fsroot = "", .this_system = true };
        Variable v[] = { { "HWLOC_LIBXML", "0", NULL } };
        hwloc_topology_t h;
        char *xml = NULL;
        int size = 0, r;

        r = hwloc_open(&s, &h);
        if (r < 0)
                return text_fail(r, ret_message, "this system: hwloc cannot read /sys");
        environment_enter(v, ELEMENTSOF(v));
        r = hwloc_topology_export_xmlbuffer(h, &xml, &size, 0);
        environment_leave(v, ELEMENTSOF(v));
        if (r < 0)
                r = text_fail(-EIO, ret_message, "this system: hwloc cannot write it as XML");
        else {
                *ret = strndup(xml, size); /* its own allocator: free() must do for the caller */
                r = *ret ? 0 : -ENOMEM;
                hwloc_free_xmlbuffer(h, xml);
        }
        hwloc_topology_destroy(h);
        return r;
}
