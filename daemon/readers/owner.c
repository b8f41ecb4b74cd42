/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose cgroup is it: a name and a kind from nothing but the path, as the known managers write it:
 *   systemd      /system.slice/ssh.service, /user.slice/user-0.slice/session-3.scope, user@1000.service/app.slice/x.scope
 *   kubelet      /kubepods/burstable/podUID/ID and /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope,
 *                also below /kubelet… (nested), and containerd's "kubepods-podUID.slice:cri-containerd:ID" in one name
 *   containers   docker-ID.scope, /docker/ID, libpod-ID.scope, crio-ID.scope, cri-containerd-ID.scope, lxc.payload.NAME, a bare 64-digit ID
 *   Slurm        /slurm/uid_0/job_77/step_0/task_0 (v1), /system.slice/NODE_slurmstepd.scope/job_77/step_0/user/task_0 (v2)
 *   qschedd      /qsched.slice/…
 * The innermost pod, container, step or slice of ours counts; units count only outside of those (a unit inside a container
 * is the container's business). Unit names stay as systemctl takes them, with their \x2d.
 */
#include "daemon/readers/cgroup.h"

#include <ctype.h>

#define ID_SHOWN 12 /* digits of a container id, as docker ps prints */

typedef struct OwnerScan {
        OwnerKind kind;
        char name[320];     /* file names end at 255 */
        char pod[80];       /* uid of the pod that we are inside of */
        char previous[256]; /* component before */
        bool slurm;         /* below a group of Slurm's */
        char job[32], step[32];
} OwnerScan;

static bool ends_with(const char *s, const char *end) {
        size_t n = strlen(s), k = strlen(end);

        return n > k && streq(s + n - k, end);
}

static bool starts_with(const char *s, const char *start) {
        return strncmp(s, start, strlen(start)) == 0;
}

static size_t hex_digits(const char *s) {
        size_t n = 0;

        while (isxdigit((unsigned char) s[n]))
                n++;
        return n;
}

/* Containers' ids are 64 hexadecimal digits. */
static bool is_id(const char *s) {
        return hex_digits(s) == 64 && (s[64] == '\0' || s[64] == '.' || s[64] == '-');
}

static void set_container(OwnerScan *o, const char *runtime, const char *id) {
        if (o->pod[0]) {
                o->kind = OWNER_POD;
                (void) snprintf(o->name, sizeof(o->name), "pod %s/%.*s", o->pod, ID_SHOWN, id);
        } else {
                o->kind = OWNER_CONTAINER;
                (void) snprintf(o->name, sizeof(o->name), "%s %.*s", runtime, ID_SHOWN, id);
        }
}

/* "pod3f…" below kubepods, or "…kubepods[-burstable]-pod3f_….slice": systemd's slices nest by '-', so the uid has '_'. */
static bool scan_pod(OwnerScan *o, const char *c) {
        const char *uid = NULL;

        if (starts_with(c, "pod") &&
            (streq(o->previous, "burstable") || streq(o->previous, "besteffort") || streq(o->previous, "guaranteed") ||
             ends_with(o->previous, "kubepods") || streq(o->previous, "kubepods")))
                uid = c + 3;
        else if (strstr(c, "kubepods") && (uid = strstr(c, "-pod")))
                uid += 4;
        if (!uid || !isalnum((unsigned char) *uid))
                return false;
        size_t n = strcspn(uid, ".:/");
        (void) snprintf(o->pod, sizeof(o->pod), "%.*s", (int) MIN(n, sizeof(o->pod) - 1), uid);
        for (char *p = o->pod; *p; p++)
                if (*p == '_')
                        *p = '-';
        o->kind = OWNER_POD;
        (void) snprintf(o->name, sizeof(o->name), "pod %s", o->pod);
        const char *id = strrchr(uid, ':'); /* slice:runtime:id */
        if (id && id[1])
                set_container(o, "containerd", id + 1);
        return true;
}

static bool scan_container(OwnerScan *o, const char *c) {
        static const struct {
                const char *prefix, *runtime;
        } names[] = {
                { "cri-containerd-", "containerd" },
                { "containerd-", "containerd" },
                { "nerdctl-", "containerd" },
                { "docker-", "docker" },
                { "crio-", "cri-o" },
                { "libpod-", "podman" },
                { "isulad-", "isulad" },
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const char *id = c + strlen(names[i].prefix);

                if (starts_with(c, names[i].prefix) && hex_digits(id) >= ID_SHOWN) {
                        set_container(o, names[i].runtime, id);
                        return true;
                }
        }
        if (starts_with(c, "lxc.payload.") || (streq(o->previous, "lxc") && *c)) {
                o->kind = OWNER_CONTAINER;
                (void) snprintf(o->name, sizeof(o->name), "lxc %.255s", streq(o->previous, "lxc") ? c : c + 12);
                return true;
        }
        if (is_id(c)) {
                set_container(
                        o, streq(o->previous, "docker") || streq(o->previous, "isulad") ? o->previous : "container", c);
                return true;
        }
        return false;
}

static bool scan_slurm(OwnerScan *o, const char *c) {
        if (streq(c, "slurm") || starts_with(c, "slurm_") || streq(c, "slurmstepd.scope") ||
            ends_with(c, "_slurmstepd.scope")) {
                o->slurm = true;
                return !ends_with(c, ".scope"); /* also a unit, of the daemon's own processes */
        }
        if (!o->slurm)
                return false;
        if (starts_with(c, "job_"))
                (void) snprintf(o->job, sizeof(o->job), "%.31s", c + 4);
        else if (starts_with(c, "step_") && o->job[0])
                (void) snprintf(o->step, sizeof(o->step), "%.31s", c + 5);
        else
                return starts_with(c, "uid_") || starts_with(c, "task_") || streq(c, "user") || streq(c, "slurm");
        o->kind = OWNER_SLURM;
        (void) snprintf(o->name, sizeof(o->name), o->step[0] ? "job %s step %s" : "job %s", o->job, o->step);
        return true;
}

static void scan_unit(OwnerScan *o, const char *c) {
        static const char *const suffixes[] = { ".service", ".scope", ".socket", ".mount", ".swap" };
        bool slice = ends_with(c, ".slice");

        if (o->kind == OWNER_QSCHED && !slice)
                (void) snprintf(o->name, sizeof(o->name), "%.255s", c);
        if (o->kind == OWNER_POD || o->kind == OWNER_CONTAINER || o->kind == OWNER_SLURM || o->kind == OWNER_QSCHED)
                return;
        if (*c == '_') /* systemd's escape for names that the kernel could take for its own */
                c++;
        for (size_t i = 0; i < ELEMENTSOF(suffixes) && !slice; i++)
                if (ends_with(c, suffixes[i])) {
                        o->kind = i == 1 ? OWNER_SCOPE : OWNER_UNIT;
                        (void) snprintf(o->name, sizeof(o->name), "%.255s", c);
                        return;
                }
        if (slice && (o->kind == OWNER_NONE || ends_with(o->name, ".slice"))) {
                o->kind = OWNER_UNIT;
                (void) snprintf(o->name, sizeof(o->name), "%.255s", c);
        }
}

static void scan_component(OwnerScan *o, const char *c) {
        if (streq(c, "qsched.slice") || (starts_with(c, "qsched-") && ends_with(c, ".slice"))) {
                o->kind = OWNER_QSCHED;
                o->pod[0] = '\0';
                (void) snprintf(o->name, sizeof(o->name), "%.255s", c);
        } else if (!scan_pod(o, c) && !scan_container(o, c) && !scan_slurm(o, c))
                scan_unit(o, c);
        (void) snprintf(o->previous, sizeof(o->previous), "%.255s", c);
}

OwnerKind cgroup_owner(const char *path, char **ret_owner) {
        OwnerScan o = {};
        bool root = true;

        *ret_owner = NULL;
        for (const char *p = path; *p;) {
                size_t n = strcspn(p, "/");
                char component[256];

                if (n > 0) {
                        (void) snprintf(component, sizeof(component), "%.*s", (int) MIN(n, sizeof(component) - 1), p);
                        scan_component(&o, component);
                        root = false;
                }
                p += n + (p[n] == '/');
        }
        if (root)
                return OWNER_NONE;
        if (o.kind == OWNER_NONE) {
                o.kind = OWNER_GROUP;
                *ret_owner = strdup(path);
        } else
                *ret_owner = strdup(o.name);
        return o.kind;
}
