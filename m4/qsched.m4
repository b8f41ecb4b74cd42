# SPDX-License-Identifier: Apache-2.0
#
# The few macros that configure.ac needs; written out here, so that autoconf-archive is not needed.

# QSCHED_COMPILER_FLAGS(VARIABLE, FLAGS)
# Appends to VARIABLE each flag that the compiler takes without a murmur (clang only warns about unknown -W flags).
AC_DEFUN([QSCHED_COMPILER_FLAGS], [
  for qsched_flag in $2; do
    AC_MSG_CHECKING([whether $CC takes $qsched_flag])
    qsched_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $qsched_flag"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>]], [[return puts("x") < 0;]])],
      [AC_MSG_RESULT([yes])
       $1="$$1 $qsched_flag"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$qsched_save_CFLAGS
  done
  AC_SUBST([$1])
])

# QSCHED_LINKER_FLAGS(VARIABLE, FLAGS)
AC_DEFUN([QSCHED_LINKER_FLAGS], [
  for qsched_flag in $2; do
    AC_MSG_CHECKING([whether the linker takes $qsched_flag])
    qsched_save_LDFLAGS=$LDFLAGS
    qsched_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $HARDENING_CFLAGS"
    LDFLAGS="$LDFLAGS $qsched_flag"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>]], [[return puts("x") < 0;]])],
      [AC_MSG_RESULT([yes])
       $1="$$1 $qsched_flag"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$qsched_save_CFLAGS
    LDFLAGS=$qsched_save_LDFLAGS
  done
  AC_SUBST([$1])
])

# QSCHED_HOST_DIR(VARIABLE, OPTION, PKG-CONFIG MODULE, ITS VARIABLE, DIRECTORY BELOW THE PREFIX)
# A folder in which the host looks for files of a kind. Asked of pkg-config; without an answer below /usr, as the host
# looks nowhere else. With --disable-host-dirs below the prefix (distcheck).
AC_DEFUN([QSCHED_HOST_DIR], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=DIR], [folder for it; else as $3.pc says, or /usr/$5])],
    [$1=$withval],
    [AS_IF([test "$enable_host_dirs" = no], [$1='${prefix}/$5'],
       [AC_MSG_CHECKING([for $2])
        $1=`$PKG_CONFIG --variable=$4 $3 2>/dev/null`
        test -n "$$1" || $1=/usr/$5
        AC_MSG_RESULT([$$1])])])
  AC_SUBST([$1])
])
