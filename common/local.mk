noinst_LTLIBRARIES += libcommon.la
libcommon_la_SOURCES = common/macro.h common/bitset.c common/bitset.h common/fileio.c common/fileio.h common/ini.c common/ini.h \
	common/config-table.c common/log.c common/log.h common/text.c common/text.h
libcommon_la_LIBADD = $(INIPARSER_LIBS) -lm
