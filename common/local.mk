noinst_LTLIBRARIES += libcommon.la
libcommon_la_SOURCES = common/macro.h common/clock.h common/bitset.c common/bitset.h common/fileio.c common/fileio.h common/gzip.c common/gzip.h common/ini.c common/ini.h \
	common/config-table.c common/json.c common/json.h common/log.c common/log.h common/text.c common/text.h
libcommon_la_LIBADD = $(INIPARSER_LIBS) $(ZLIB_LIBS) $(JANSSON_LIBS) -lm
