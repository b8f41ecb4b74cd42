/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is compared is text as the kernel gives it, kept from one look to the next. A file that is not there is an empty
 * text: kernels without NUMA or without PCI have nothing to change. The directory of PCI functions is read in the order
 * the kernel lists it, which is stable; only when the text differs is it compared as a set.
 */
#include "daemon/readers/machine-watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "common/text.h"

#define CPUS "sys/devices/system/cpu/"
#define FUNCTIONS "sys/bus/pci/devices"
#define NAMED_MAX 8U /* functions that one sentence names */

enum { ITEM_ONLINE, ITEM_POSSIBLE, ITEM_ISOLATED, ITEM_MEMORY, ITEM_ALLOWED, ITEM_MEMS, _ITEM_MAX };

static const struct {
        const char *name;
        const char *path;
        const char *key; /* line of the file; NULL: its first */
} items[_ITEM_MAX] = {
        [ITEM_ONLINE] = { "CPUs online", CPUS "online", NULL },
        [ITEM_POSSIBLE] = { "possible CPUs", CPUS "possible", NULL },
        [ITEM_ISOLATED] = { "isolated CPUs", CPUS "isolated", NULL },
        [ITEM_MEMORY] = { "nodes with memory", "sys/devices/system/node/has_memory", NULL },
        [ITEM_ALLOWED] = { "CPUs that qschedd itself may use", "proc/self/status", "Cpus_allowed_list:" },
        [ITEM_MEMS] = { "nodes that qschedd itself may use", "proc/self/status", "Mems_allowed_list:" },
};

typedef struct Node { /* of a function that is a device */
        char *address, *text;
} Node;

struct MachineWatch {
        char *root;
        char *items[_ITEM_MAX];
        char *functions; /* "\n0000:21:00.0\n0000:41:00.0\n" */
        Node *nodes;
        size_t n_nodes;
        Bitset online;
        bool changed; /* and not told yet: the look failed after */
};

static void nodes_done(Node *nodes, size_t n) {
        for (size_t i = 0; i < n; i++) {
                free(nodes[i].address);
                free(nodes[i].text);
        }
        free(nodes);
}

/* "" when there is no such file, or it has no such line. */
static int read_item(const MachineWatch *w, const char *below, const char *key, char **ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        const char *line;
        int r;

        if (asprintf(&path, "%s/%s", w->root, below) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        r = key ? read_file_at(AT_FDCWD, path, FILEIO_MAX_DEFAULT, &text, NULL) : read_line_at(AT_FDCWD, path, &text);
        if (r < 0) {
                if (r == -ENOMEM || r == -EMFILE || r == -ENFILE) /* says nothing of the machine */
                        return r;
                *ret = strdup("");
                return *ret ? 0 : -ENOMEM;
        }
        if (!key) {
                *ret = TAKE_PTR(text);
                return 0;
        }
        line = strstr(text, key);
        line = line ? line + strlen(key) + strspn(line + strlen(key), " \t") : "";
        *ret = strndup(line, strcspn(line, "\n"));
        return *ret ? 0 : -ENOMEM;
}

static int read_functions(const MachineWatch *w, char **ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        struct dirent *de;
        size_t size = 0;
        FILE *f;
        DIR *d;

        if (asprintf(&path, "%s/" FUNCTIONS, w->root) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        d = opendir(path);
        if (!d && errno != ENOENT)
                return -errno;
        f = open_memstream(&text, &size);
        if (!f) {
                if (d)
                        (void) closedir(d);
                return -ENOMEM;
        }
        fputc('\n', f);
        while (d && (de = readdir(d)))
                if (de->d_name[0] != '.')
                        fprintf(f, "%s\n", de->d_name);
        if (d)
                (void) closedir(d);
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 0;
}

static bool has_line(const char *text, const char *word, size_t n) {
        for (const char *p = text; (p = strstr(p, "\n")) && p[1]; p++)
                if (strncmp(p + 1, word, n) == 0 && p[1 + n] == '\n')
                        return true;
        return false;
}

/* Lines of `in` that are not in `out`, as one sentence; 1 when there are some. */
static int tell_missing(const char *in, const char *out, const char *what, char ***messages) {
        _cleanup_free_ char *list = NULL;
        size_t size = 0, n = 0;
        FILE *f = open_memstream(&list, &size);

        if (!f)
                return -ENOMEM;
        for (const char *p = in + 1; *p; p += strcspn(p, "\n") + 1) {
                size_t k = strcspn(p, "\n");

                if (has_line(out, p, k) || n++ >= NAMED_MAX)
                        continue;
                fprintf(f, "%s%.*s", n > 1 ? ", " : "", (int) k, p);
        }
        if (n > NAMED_MAX)
                fprintf(f, " and %zu more", n - NAMED_MAX);
        if (fclose(f) != 0)
                return -ENOMEM;
        if (n == 0)
                return 0;
        return strv_extendf(messages, "PCI %s %s %s", n > 1 ? "functions" : "function", list, what) < 0 ? -ENOMEM : 1;
}

static int look_at_functions(MachineWatch *w, char ***messages) {
        _cleanup_free_ char *now = NULL;
        int gone = 0, new = 0, r;

        r = read_functions(w, &now);
        if (r < 0)
                return r;
        if (w->functions && !streq(now, w->functions)) {
                gone = tell_missing(w->functions, now, "gone", messages);
                new = tell_missing(now, w->functions, "new", messages);
                if (gone < 0 || new < 0)
                        return -ENOMEM;
        }
        free(w->functions);
        w->functions = TAKE_PTR(now);
        return gone || new;
}

/* An own mask may name CPUs that are not there, and the kernel adds those when it sets the mask anew. */
static int only_online(const char *online, char **list) {
        _cleanup_(bitset_done) Bitset set = BITSET_EMPTY, there = BITSET_EMPTY;
        char *text = NULL;
        int r = bitset_parse(*list, &set);

        if (r >= 0)
                r = bitset_parse(online, &there);
        if (r >= 0) {
                bitset_and(&set, &there);
                r = bitset_format(&set, &text);
        }
        if (r < 0)
                return r;
        free(*list);
        *list = text;
        return 0;
}

static int look_at_items(MachineWatch *w, char ***messages) {
        for (size_t i = 0; i < _ITEM_MAX; i++) {
                _cleanup_free_ char *now = NULL;
                int r = read_item(w, items[i].path, items[i].key, &now);

                if (r >= 0 && i == ITEM_ALLOWED)
                        r = only_online(w->items[ITEM_ONLINE], &now);
                if (r < 0)
                        return r;
                if (w->items[i] && !streq(w->items[i], now)) {
                        w->changed = true;
                        r = strv_extendf(messages, "%s: %s, were %s", items[i].name, *now ? now : "none",
                                         *w->items[i] ? w->items[i] : "none");
                        if (r < 0)
                                return r;
                }
                free(w->items[i]);
                w->items[i] = TAKE_PTR(now);
        }
        return 0;
}

static const Node *find_node(const MachineWatch *w, const char *address) {
        for (size_t i = 0; i < w->n_nodes; i++)
                if (streq(w->nodes[i].address, address))
                        return &w->nodes[i];
        return NULL;
}

static int look_at_node(const MachineWatch *w, Node *now, const char *address, char ***messages) {
        _cleanup_free_ char *below = NULL;
        const Node *old = find_node(w, address);
        int r;

        if (asprintf(&below, FUNCTIONS "/%s/numa_node", address) < 0) {
                below = NULL;
                return -ENOMEM;
        }
        now->address = strdup(address);
        r = now->address ? read_item(w, below, NULL, &now->text) : -ENOMEM;
        if (r < 0)
                return r;
        /* One that goes or comes is told of as a function. */
        if (!old || !*old->text || !*now->text || streq(old->text, now->text))
                return 0;
        r = strv_extendf(messages, "PCI function %s: node %s, was %s", address, now->text, old->text);
        return r < 0 ? r : 1;
}

static int look_at_nodes(MachineWatch *w, char *const *functions, char ***messages) {
        size_t n = strv_length(functions);
        Node *now = calloc(n + 1, sizeof(*now));
        int r = 0, changed = 0;

        if (!now)
                return -ENOMEM;
        for (size_t i = 0; r >= 0 && i < n; i++) {
                r = look_at_node(w, &now[i], functions[i], messages);
                changed |= r > 0;
        }
        if (r < 0) {
                nodes_done(now, n);
                return r;
        }
        nodes_done(w->nodes, w->n_nodes);
        w->nodes = now;
        w->n_nodes = n;
        return changed;
}

int machine_watch_look(MachineWatch *w, char *const *functions, char ***messages) {
        int r;

        r = look_at_items(w, messages);
        if (r >= 0)
                r = *w->items[ITEM_ONLINE] ? bitset_parse(w->items[ITEM_ONLINE], &w->online) : -ENOENT;
        if (r >= 0)
                r = look_at_functions(w, messages);
        if (r >= 0) {
                w->changed |= r > 0;
                r = look_at_nodes(w, functions, messages);
        }
        if (r < 0)
                return r;
        r = w->changed || r > 0;
        w->changed = false;
        return r;
}

int machine_watch_new(const char *root, MachineWatch **ret) {
        _cleanup_(machine_watch_freep) MachineWatch *w = calloc(1, sizeof(*w));
        _cleanup_(strv_freep) char **messages = NULL;
        int r;

        if (!w || !(w->root = strdup(root)))
                return -ENOMEM;
        r = machine_watch_look(w, NULL, &messages);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

MachineWatch *machine_watch_free(MachineWatch *w) {
        if (!w)
                return NULL;
        for (size_t i = 0; i < _ITEM_MAX; i++)
                free(w->items[i]);
        nodes_done(w->nodes, w->n_nodes);
        free(w->functions);
        free(w->root);
        bitset_done(&w->online);
        free(w);
        return NULL;
}

const Bitset *machine_watch_online(const MachineWatch *w) {
        return &w->online;
}
