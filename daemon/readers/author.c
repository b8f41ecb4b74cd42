/* SPDX-License-Identifier: Apache-2.0 */
/* See author.h. Evidence that cannot be read is none: only running out of memory is an error. */
#include "daemon/readers/author.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>

#include "common/fileio.h"
#include "common/text.h"

#define UNIT_FILE_MAX (1U << 20)
#define KUBELET_STATE_MAX (4U << 20)

/* Where set-property writes first, then what administrators and packages write. */
static const char *const unit_places[] = {
        "run/systemd/system.control", "etc/systemd/system.control",   "run/systemd/transient",  "etc/systemd/system",
        "run/systemd/system",         "usr/local/lib/systemd/system", "usr/lib/systemd/system",
};

static const char *const unit_keys[] = { "AllowedCPUs=", "CPUAffinity=" };

void author_evidence_done(AuthorEvidence *e) {
        bitset_done(&e->found);
        bitset_done(&e->wanted);
        bitset_done(&e->allowed);
        bitset_done(&e->online);
        free(e->owner);
        free(e->property);
        free(e->file);
        *e = (AuthorEvidence){};
}

void author_done(Author *a) {
        free(a->who);
        free(a->hint);
        *a = (Author){};
}

/* "0-3 8" and "0-3,8" */
static bool says(const char *value, size_t n, const Bitset *found) {
        _cleanup_(bitset_done) Bitset set = BITSET_EMPTY;
        _cleanup_free_ char *list = strndup(value, n);

        for (char *p = list; p && *p; p++)
                if (*p == ' ' || *p == '\t')
                        *p = ',';
        return list && bitset_parse(list, &set) >= 0 && !bitset_isempty(&set) && bitset_equal(&set, found);
}

/* A line of the file that gives just these CPUs. */
static int look_into_unit(AuthorEvidence *e, const char *path) {
        _cleanup_free_ char *text = NULL;

        if (read_regular_file(path, UNIT_FILE_MAX, &text, NULL) < 0)
                return 0;
        for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
                for (size_t i = 0; i < ELEMENTSOF(unit_keys); i++) {
                        size_t k = strlen(unit_keys[i]), n = strcspn(line, "\r\n");

                        if (strncmp(line, unit_keys[i], k) != 0 || !says(line + k, n - k, &e->found))
                                continue;
                        e->property = strndup(line, n);
                        e->file = strdup(path);
                        return e->property && e->file ? 1 : -ENOMEM;
                }
        return 0;
}

static int look_into_drop_ins(AuthorEvidence *e, const char *dir) {
        struct dirent *de;
        DIR *d = opendir(dir);
        int r = 0;

        while (d && r == 0 && (de = readdir(d))) {
                _cleanup_free_ char *path = de->d_name[0] == '.' ? NULL : path_join(dir, de->d_name);

                if (path)
                        r = look_into_unit(e, path);
        }
        if (d)
                (void) closedir(d);
        return r;
}

static int look_at_unit(AuthorEvidence *e, const char *root, const char *unit) {
        for (size_t i = 0; i < ELEMENTSOF(unit_places); i++) {
                _cleanup_free_ char *path = NULL, *dir = NULL;
                int r;

                if (asprintf(&path, "%s/%s/%s", strempty(root), unit_places[i], unit) < 0)
                        return path = NULL, -ENOMEM;
                if (asprintf(&dir, "%s.d", path) < 0)
                        return dir = NULL, -ENOMEM;
                r = look_into_drop_ins(e, dir);
                if (r == 0)
                        r = look_into_unit(e, path);
                if (r != 0)
                        return r;
        }
        return 0;
}

/* Each unit on the way from the root: a slice above may have been given other CPUs. The lowest tells first. */
static int look_at_units(AuthorEvidence *e, const char *root, const char *group) {
        _cleanup_free_ char *path = strdup(group);
        char *slash;
        int r = 0;

        if (!path)
                return -ENOMEM;
        while (r == 0 && (slash = strrchr(path, '/'))) {
                if (strchr(slash + 1, '.'))
                        r = look_at_unit(e, root, slash + 1);
                *slash = '\0';
        }
        return r < 0 ? r : 0;
}

static int look_at_kubelet(AuthorEvidence *e, const char *root) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        const char *uid, *name;
        json_t *state, *pod, *cpus;

        if (asprintf(&path, "%s/var/lib/kubelet/cpu_manager_state", strempty(root)) < 0)
                return path = NULL, -ENOMEM;
        if (read_regular_file(path, KUBELET_STATE_MAX, &text, NULL) < 0)
                return 0;
        state = json_loads(text, 0, NULL);
        json_object_foreach (json_object_get(state, "entries"), uid, pod)
                json_object_foreach (pod, name, cpus)
                        if (json_is_string(cpus))
                                e->kubelet |= says(json_string_value(cpus), json_string_length(cpus), &e->found);
        cpus = json_object_get(state, "defaultCpuSet");
        if (json_is_string(cpus))
                e->kubelet |= says(json_string_value(cpus), json_string_length(cpus), &e->found);
        json_decref(state);
        return 0;
}

static int look_at_process(AuthorEvidence *e, const AuthorPlace *p) {
        int fd = proc_open(p->root), r, binding;

        if (fd < 0)
                return fd == -ENOMEM ? fd : 0;
        r = pin_of_process(fd, p->pid, &e->pin);
        if (r != -ENOMEM && p->ascend && !pin_arch_is_x86(p->root))
                e->vllm = pin_is_vllm(fd, p->pid, &binding) && binding != 0;
        (void) close(fd);
        return r == -ENOMEM ? r : 0;
}

static int look_at_online(AuthorEvidence *e, const char *root) {
        _cleanup_free_ char *path = NULL, *line = NULL;

        if (asprintf(&path, "%s/sys/devices/system/cpu/online", strempty(root)) < 0)
                return path = NULL, -ENOMEM;
        return read_line_at(AT_FDCWD, path, &line) < 0 || bitset_parse(line, &e->online) != -ENOMEM ? 0 : -ENOMEM;
}

static int look_at_task(AuthorEvidence *e, const Task *t) {
        int r = bitset_copy(&e->allowed, &t->allowed_cpus);

        e->owner_kind = t->owner_kind;
        if (r >= 0 && t->owner && !(e->owner = strdup(t->owner)))
                r = -ENOMEM;
        return r;
}

int author_read(const AuthorPlace *p, AuthorEvidence *ret) {
        _cleanup_(author_evidence_done) AuthorEvidence e = { .is_group = p->group };
        const char *group = p->group ? p->group : p->task ? p->task->cgroup : NULL;
        int r = bitset_copy(&e.found, p->found);

        if (r >= 0)
                r = bitset_copy(&e.wanted, p->wanted);
        if (r >= 0)
                r = look_at_online(&e, p->root);
        if (r >= 0 && p->task)
                r = look_at_task(&e, p->task);
        if (r >= 0 && group)
                r = look_at_units(&e, p->root, group);
        if (r >= 0 && e.owner_kind == OWNER_POD)
                r = look_at_kubelet(&e, p->root);
        if (r >= 0 && p->pid > 0 && !p->group)
                r = look_at_process(&e, p);
        if (r < 0)
                return r;
        *ret = e;
        e = (AuthorEvidence){};
        return 0;
}

static int name_it(Author *a, AuthorKind kind, const char *format, ...) _printf_(3, 4);
static int name_it(Author *a, AuthorKind kind, const char *format, ...) {
        va_list ap;

        a->kind = kind;
        va_start(ap, format);
        if (vasprintf(&a->who, format, ap) < 0)
                a->who = NULL;
        va_end(ap);
        return a->who ? 0 : -ENOMEM;
}

static int give_hint(Author *a, const char *before, const char *what, const char *after) {
        if (asprintf(&a->hint, "%s%s%s", before, what, after) >= 0)
                return 0;
        a->hint = NULL;
        return -ENOMEM;
}

static int judge_kernel(const AuthorEvidence *e, Author *a) {
        _cleanup_free_ char *list = NULL;
        int r = bitset_format(&e->wanted, &list);

        return r < 0 ? r : name_it(a, AUTHOR_KERNEL, "the kernel, since CPUs %s are offline", list);
}

static int judge_systemd(const AuthorEvidence *e, Author *a) {
        int r = name_it(a, AUTHOR_SYSTEMD, "systemd (%s in %s)", e->property, e->file);

        return r < 0 ? r
                     : give_hint(a, "systemctl revert, or set-property with other CPUs, changes what ", e->file,
                                 " says");
}

static int judge_framework(const AuthorEvidence *e, Author *a) {
        int r;

        if (e->vllm) {
                r = name_it(a, AUTHOR_FRAMEWORK,
                            "the process itself, probably: " PIN_VLLM " binds its threads when it starts");
                return r < 0 ? r : give_hint(a, "", PIN_VLLM_MEND, ": that turns it off");
        }
        r = name_it(a, AUTHOR_FRAMEWORK, "the process itself, probably: %s pins its threads, since %s is set",
                    e->pin->who, e->pin->variable);
        return r < 0 ? r : give_hint(a, "", e->pin->mend, " in what starts it turns that off");
}

/* Whoever keeps its cgroup gives all its threads what the cpuset has, each time it writes it. */
static int judge_owner(const AuthorEvidence *e, Author *a) {
        if (e->owner_kind == OWNER_POD)
                return name_it(a, AUTHOR_KUBELET, "kubelet, probably (%s has all that its cpuset allows)",
                               strempty(e->owner));
        if (e->owner_kind == OWNER_SLURM)
                return name_it(a, AUTHOR_SLURM, "Slurm, probably (%s has all that its cpuset allows)",
                               strempty(e->owner));
        return name_it(a, AUTHOR_ENGINE, "its container engine, probably (%s has all that its cpuset allows)",
                       strempty(e->owner));
}

int author_judge(const AuthorEvidence *e, Author *ret) {
        bool kept = e->owner_kind == OWNER_POD || e->owner_kind == OWNER_CONTAINER || e->owner_kind == OWNER_SLURM;
        Author a = {};
        int r;

        if (!bitset_isempty(&e->online) && !bitset_isempty(&e->wanted) && !bitset_intersects(&e->wanted, &e->online))
                r = judge_kernel(e, &a);
        else if (e->property)
                r = judge_systemd(e, &a);
        else if (e->kubelet)
                r = name_it(&a, AUTHOR_KUBELET, "kubelet, whose CPU manager has given out just these");
        else if (e->is_group)
                r = name_it(&a, AUTHOR_UNKNOWN, "somebody with the right to, who wrote the group's cpuset.cpus");
        else if (kept && !bitset_isempty(&e->allowed) && bitset_equal(&e->found, &e->allowed))
                r = judge_owner(e, &a);
        else if (e->vllm || e->pin)
                r = judge_framework(e, &a);
        else
                r = name_it(&a, AUTHOR_UNKNOWN,
                            "somebody with the right to: the process itself, or a tool such as taskset");
        if (r < 0) {
                author_done(&a);
                return r;
        }
        *ret = a;
        return 0;
}
