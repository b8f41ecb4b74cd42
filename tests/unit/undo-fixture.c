/* SPDX-License-Identifier: Apache-2.0 */
#include "undo-fixture.h"

static void remove_tree(const char *dir) {
        _cleanup_free_ char *command = NULL;

        assert_true(asprintf(&command, "rm -rf '%s'", dir) > 0);
        assert_int_equal(system(command), 0);
}

int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        strcpy(f->dir, "/tmp/qsched-undo-XXXXXX");
        if (!mkdtemp(f->dir))
                return -1;
        f->journal = path_join(f->dir, "undo.journal");
        *state = f;
        return undo_open(f->dir, &f->messages, &f->undo);
}

int teardown(void **state) {
        Fixture *f = *state;

        undo_free(f->undo);
        strv_free(f->messages);
        remove_tree(f->dir);
        free(f->journal);
        free(f);
        return 0;
}

void reopen(Fixture *f) {
        f->undo = undo_free(f->undo);
        f->messages = strv_free(f->messages);
        assert_int_equal(undo_open(f->dir, &f->messages, &f->undo), 0);
}

off_t size_of(const Fixture *f) {
        struct stat st;

        return stat(f->journal, &st) < 0 ? -1 : st.st_size;
}

size_t count(Undo *u) {
        size_t n;

        undo_entries(u, &n);
        return n;
}

int note(Undo *u, uint64_t id, const char *job, pid_t tid, const char *old, const char *new) {
        Bitset o = BITSET_EMPTY, n = BITSET_EMPTY;
        int r;

        assert_int_equal(bitset_parse(old, &o), 0);
        assert_int_equal(bitset_parse(new, &n), 0);
        r = undo_note_affinity(u, id, job, (Process){ 80, 1234 }, tid, 1000 + (uint64_t) tid, &o, &n, tid % 2 == 0,
                               tid % 3 == 0 ? &o : NULL, NULL);
        bitset_done(&o);
        bitset_done(&n);
        return r;
}

void add_text(const Fixture *f, const char *text) {
        _cleanup_close_ int fd = open(f->journal, O_WRONLY | O_APPEND);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

void assert_set(const Bitset *b, const char *text) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        assert_string_equal(s, text);
}
