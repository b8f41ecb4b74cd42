/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert: a file in, the same problem in another format out. Formats differ in sense and have no place for a constant,
 * so what their values are of each other's is said on standard error where it is not the same.
 */
#include <math.h>

#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "ctl/solve.h"

static const Format *target_format(const Options *o, const char *path) {
        _cleanup_free_ char *names = NULL;
        const Format *f = o->to ? format_by_name(o->to) : format_by_suffix(path);

        if (f)
                return f;
        names = format_names();
        log_error("%s: its name does not tell the format; give --to= with one of %s.", path, strempty(names));
        return NULL;
}

static void say_values(const Model *m, const Format *format, const Written *w) {
        _cleanup_free_ char *constant = NULL;

        if (w->factor == 1 && w->constant == 0)
                return;
        if (w->constant != 0 && asprintf(&constant, " %c %.15g", w->constant < 0 ? '-' : '+', fabs(w->constant)) < 0)
                constant = NULL;
        log_notice("Values of the %s file are %g * those of the %s file%s.", format->name, w->factor,
                   m->in->format->name, strempty(constant));
}

int verb_convert(const Options *o, int argc, char **argv) {
        _cleanup_(model_done) Model m = {};
        _cleanup_(written_done) Written w = {};
        _cleanup_free_ char *message = NULL;
        const Format *format = target_format(o, argv[1]);
        int r;

        if (!format)
                return EXIT_USAGE;
        r = model_load(o, argv[0], &m);
        if (r != EXIT_DONE)
                return r;
        r = instance_write(m.in, format, &w, &message);
        if (r < 0) {
                if (message)
                        log_error("%s: %s.", argv[0], message);
                else
                        log_error_errno(r, "%s: cannot be converted: %m", argv[0]);
                return EXIT_FAILED;
        }
        r = ctl_write_output(argv[1], w.text, w.size);
        if (r == EXIT_DONE)
                say_values(&m, format, &w);
        return r;
}
