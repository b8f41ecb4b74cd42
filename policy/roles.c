/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of roles: the built-in rows, and which of them a thread belongs to. What they get is in roles-split.c.
 *
 * Names of the built-in rows are what the frameworks give their threads: torch_npu (acl_thread takes the operators from
 * the queue, release_thread frees what they used), the communication libraries' proxies and watchdogs.
 */
#include "policy/roles.h"

#include <errno.h>
#include <fnmatch.h>
#include <strings.h>

#include "common/text.h"

const char *const role_share_names[] = { "rest", "own", "pool", NULL };

static const struct {
        const char *name, *comm; /* blanks between */
        bool main, children, interrupts;
        RoleShare share;
        unsigned cpus, priority;
} built_in[] = {
        { .name = "compute", .comm = "*", .main = true, .share = ROLE_REST, .priority = 0 },
        { .name = "runtime", .comm = "acl_thread", .share = ROLE_OWN, .cpus = 1, .priority = 90 },
        { .name = "communication",
          .comm = "hccl* Hccl* HCCL* nccl* NCCL* rccl* cncl* CNCL* pt_nccl* pt_hccl*",
          .share = ROLE_OWN,
          .cpus = 1,
          .priority = 80 },
        { .name = "interrupts", .interrupts = true, .share = ROLE_OWN, .cpus = 1, .priority = 70 },
        { .name = "release", .comm = "release_thread", .share = ROLE_OWN, .cpus = 1, .priority = 60 },
        { .name = "children", .children = true, .share = ROLE_POOL, .priority = 50 },
};

static void role_done(Role *r) {
        free(r->name);
        strv_free(r->comm);
}

void roles_done(Roles *r) {
        for (size_t i = 0; i < r->n_roles; i++)
                role_done(r->roles + i);
        free(r->roles);
        *r = (Roles){};
}

Role *roles_get(Roles *r, const char *name) {
        Role *more;
        char *copy;

        for (size_t i = 0; i < r->n_roles; i++)
                if (strcasecmp(r->roles[i].name, name) == 0)
                        return r->roles + i;
        if (r->n_roles >= ROLES_MAX)
                return NULL;
        copy = strdup(name);
        if (!copy)
                return NULL;
        more = reallocarray(r->roles, r->n_roles + 1, sizeof(*more));
        if (!more) {
                free(copy);
                return NULL;
        }
        r->roles = more;
        r->roles[r->n_roles] = (Role){ .name = copy, .share = ROLE_OWN, .cpus = 1, .priority = 50 };
        return r->roles + r->n_roles++;
}

int roles_default(Roles *ret) {
        Roles r = {};

        for (size_t i = 0; i < ELEMENTSOF(built_in); i++) {
                Role *role = roles_get(&r, built_in[i].name);

                if (!role || strv_split(strempty(built_in[i].comm), " ", &role->comm) < 0) {
                        roles_done(&r);
                        return -ENOMEM;
                }
                role->main = built_in[i].main;
                role->children = built_in[i].children;
                role->interrupts = built_in[i].interrupts;
                role->share = built_in[i].share;
                role->cpus = MAX(built_in[i].cpus, 1U);
                role->priority = built_in[i].priority;
        }
        *ret = r;
        return 0;
}

int roles_copy(const Roles *from, Roles *ret) {
        Roles r = {};

        for (size_t i = 0; i < from->n_roles; i++) {
                Role *to = roles_get(&r, from->roles[i].name);
                int k = to ? 0 : -ENOMEM;

                if (to) {
                        char *name = to->name;

                        *to = from->roles[i];
                        to->name = name;
                        to->comm = NULL;
                }
                for (char **c = from->roles[i].comm; k >= 0 && c && *c; c++)
                        k = strv_extend(&to->comm, *c);
                if (k < 0) {
                        roles_done(&r);
                        return k;
                }
        }
        *ret = r;
        return 0;
}

/* The first by falling priority, then by the order of the table, that `fits`; -1 none. */
static int first_role(const Roles *r, bool (*fits)(const Role *role, const RoleThread *t), const RoleThread *t) {
        int best = -1;

        for (size_t i = 0; i < r->n_roles; i++)
                if ((best < 0 || r->roles[i].priority > r->roles[best].priority) && fits(r->roles + i, t))
                        best = (int) i;
        return best;
}

static bool fits_child(const Role *role, const RoleThread *t) {
        return role->children;
}

static bool fits_main(const Role *role, const RoleThread *t) {
        return role->main;
}

static bool fits_name(const Role *role, const RoleThread *t) {
        for (char **c = role->comm; c && *c; c++)
                if (fnmatch(*c, t->comm, 0) == 0)
                        return true;
        return false;
}

unsigned role_of(const Roles *r, const RoleThread *t, const char *main_comm) {
        int i = -1;

        if (t->is_child)
                i = first_role(r, fits_child, t);
        else if (t->is_main)
                i = first_role(r, fits_main, t);
        else if (t->comm && !(main_comm && streq(t->comm, main_comm)))
                i = first_role(r, fits_name, t);
        return i < 0 ? 0 : (unsigned) i;
}
