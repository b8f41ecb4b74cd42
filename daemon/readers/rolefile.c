/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A [Role NAME] section is filled straight into the Role: the keys that it lacks stay as they are. Files are read one
 * after the other, so a later one wins key by key. All sections of a file go into a copy first.
 */
#include "daemon/readers/rolefile.h"

#include <errno.h>
#include <strings.h>

#define COMM_MAX 15U /* bytes the kernel keeps of a comm */

/* clang-format off */
const ConfigItem role_items[] = {
        { "Role", "Comm", CONFIG_STRV, 0, 0, NULL, offsetof(Role, comm), NULL,
          "Names of its threads, as globs of the kernel's comm, of which it keeps 15 bytes; threads with the main thread's name are compute threads" },
        { "Role", "Main", CONFIG_BOOL, 0, 0, NULL, offsetof(Role, main), NULL,
          "It has the main thread, whatever its name; of several such roles the one of highest Priority=" },
        { "Role", "Children", CONFIG_BOOL, 0, 0, NULL, offsetof(Role, children), NULL,
          "It has all threads of child processes, such as data loaders" },
        { "Role", "Interrupts", CONFIG_BOOL, 0, 0, NULL, offsetof(Role, interrupts), NULL,
          "Its cores are for the interrupts of the rank's devices" },
        { "Role", "Share", CONFIG_ENUM, 0, 0, NULL, offsetof(Role, share), role_share_names,
          "What its threads get: cores of their own (when there are enough), what such roles leave (rest), or the rank's whole pool" },
        { "Role", "CPUs", CONFIG_UINT, 1, 4096, NULL, offsetof(Role, cpus), NULL,
          "Logical CPUs it wants with Share=own, rounded up to whole cores" },
        { "Role", "Priority", CONFIG_UINT, 0, 100, NULL, offsetof(Role, priority), NULL,
          "Roles of higher priority get cores of their own first, and their names are tried first" },
        {},
};
/* clang-format on */

static bool never_matches(const char *pattern) {
        return !strpbrk(pattern, "*?[\\") && strlen(pattern) > COMM_MAX;
}

static int check_role(const Ini *ini, const IniSection *section, const Role *role, char **ret_message) {
        for (char **c = role->comm; c && *c; c++)
                if (never_matches(*c))
                        return text_fail(-EBADMSG, ret_message,
                                         "%s:%u: [Role %s] Comm=%.40s can never match: the kernel keeps %u bytes of a "
                                         "thread's name; use %.15s or %.14s*",
                                         ini->label, section->line, role->name, *c, COMM_MAX, *c, *c);
        return 0;
}

static int load_role(Roles *r, const Ini *ini, const IniSection *section, char **ret_message) {
        const char *name = section->args ? section->args[0] : NULL;
        Role *role;
        int k;

        if (!name || section->args[1] || !name_is_valid(name))
                return text_fail(-EBADMSG, ret_message, "%s:%u: [Role NAME] takes one name, allowed: %s", ini->label,
                                 section->line, NAME_RULE);
        if (r->n_roles >= ROLES_MAX) {
                bool known = false;

                for (size_t i = 0; i < r->n_roles; i++)
                        known |= strcasecmp(r->roles[i].name, name) == 0;
                if (!known)
                        return text_fail(-EBADMSG, ret_message,
                                         "%s:%u: [Role %s]: there are %u roles already, no more are allowed",
                                         ini->label, section->line, name, ROLES_MAX);
        }
        role = roles_get(r, name);
        if (!role)
                return -ENOMEM;
        k = config_section_fill(ini, section, role_items, role, ret_message);
        return k < 0 ? k : check_role(ini, section, role, ret_message);
}

int roles_from_ini(Roles *r, const Ini *ini, char **ret_message) {
        Roles copy;
        int k = roles_copy(r, &copy);

        if (k < 0)
                return k;
        for (size_t i = 0; i < ini->n_sections && k >= 0; i++)
                if (strcasecmp(ini->sections[i].type, "Role") == 0)
                        k = load_role(&copy, ini, &ini->sections[i], ret_message);
        if (k < 0) {
                roles_done(&copy);
                return k;
        }
        roles_done(r);
        *r = copy;
        return 0;
}

void roles_print(const Roles *r, FILE *f) {
        for (size_t i = 0; i < r->n_roles; i++) {
                const Role *role = r->roles + i;

                fprintf(f, "#\n#[Role %s]\n", role->name);
                if (role->comm) {
                        fputs("#Comm=", f);
                        for (char **c = role->comm; *c; c++)
                                fprintf(f, "%s%s", c == role->comm ? "" : " ", *c);
                        fputc('\n', f);
                }
                if (role->main)
                        fputs("#Main=yes\n", f);
                if (role->children)
                        fputs("#Children=yes\n", f);
                if (role->interrupts)
                        fputs("#Interrupts=yes\n", f);
                fprintf(f, "#Share=%s\n", role_share_names[role->share]);
                if (role->share == ROLE_OWN)
                        fprintf(f, "#CPUs=%u\n", role->cpus);
                fprintf(f, "#Priority=%u\n", role->priority);
        }
}
