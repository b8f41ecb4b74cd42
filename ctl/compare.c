#include "ctl/output.h"
#include "ctl/solve.h"
int compare_solvers(const Model *m, const Options *o) {
        return EXIT_FAILED;
}
