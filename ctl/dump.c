/* SPDX-License-Identifier: Apache-2.0 */
/* dump: the record as the daemon writes it, byte for byte: what is attached to a bug report is what a test replays. */
#include "ctl/output.h"

int verb_dump(const Options *o, int argc, char **argv) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = client_dump(o, &text, &size);

        if (r != EXIT_DONE)
                return r;
        (void) fwrite(text, 1, size, stdout); /* output_finish() tells failures */
        if (size > 0 && text[size - 1] != '\n')
                (void) fputc('\n', stdout);
        return EXIT_DONE;
}
