//! The programs.

/// A program: its name, its library's package, its sources, and flags. In sources and flags,
/// `{src}` is the package's folder and `{here}` that of the benchmarks. A source that is a folder
/// stands for its files.
pub(crate) type Program = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip]
pub(crate) const PROGRAMS: &[Program] = &[
    ("zlib", "zlib", &["adler32.c", "compress.c", "crc32.c", "deflate.c", "inffast.c", "inflate.c", "inftrees.c",
        "trees.c", "uncompr.c", "zutil.c"], &[]),
    ("bzip2", "bzip2", &["blocksort.c", "bzlib.c", "compress.c", "crctable.c", "decompress.c", "huffman.c",
        "randtable.c"], &["-DBZ_NO_STDIO"]),
    ("lz4", "lz4", &["lib/lz4.c"], &["-I{src}/lib"]),
    ("zstd", "libzstd", &["lib/common", "lib/compress", "lib/decompress"],
        &["-I{src}/lib", "-DXXH_NAMESPACE=ZSTD_", "-DZSTD_LEGACY_SUPPORT=0"]),
    ("brotli", "brotli", &["c/common", "c/dec", "c/enc"], &["-I{src}/c/include"]),
    ("lua", "lua5.4", &["src"], &["-I{src}/src"]),
    ("mujs", "mujs", &["one.c"], &[]),
    ("sqlite", "sqlite3", &["sqlite3.c"], &["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]),
    ("pcre2", "pcre2", &["src/pcre2_auto_possess.c", "src/pcre2_compile.c", "src/pcre2_config.c",
        "src/pcre2_context.c", "src/pcre2_error.c", "src/pcre2_extuni.c", "src/pcre2_find_bracket.c",
        "src/pcre2_jit_compile.c", "src/pcre2_match.c", "src/pcre2_match_data.c", "src/pcre2_newline.c",
        "src/pcre2_ord2utf.c", "src/pcre2_pattern_info.c", "src/pcre2_script_run.c", "src/pcre2_string_utils.c",
        "src/pcre2_study.c", "src/pcre2_tables.c", "src/pcre2_ucd.c", "src/pcre2_valid_utf.c",
        "src/pcre2_xclass.c", "src/pcre2_maketables.c", "{here}/pcre2/tables.c"],
        &["-I{here}/pcre2", "-I{src}/src", "-DPCRE2_CODE_UNIT_WIDTH=8", "-DPCRE2_STATIC", "-DSUPPORT_UNICODE",
        "-DHAVE_MEMMOVE", "-DHAVE_INTTYPES_H", "-DHAVE_STDINT_H", "-DHEAP_LIMIT=20000000",
        "-DMATCH_LIMIT=10000000", "-DMATCH_LIMIT_DEPTH=10000000", "-DLINK_SIZE=2", "-DMAX_NAME_COUNT=10000",
        "-DMAX_NAME_SIZE=32", "-DNEWLINE_DEFAULT=2", "-DPARENS_NEST_LIMIT=250"]),
    ("jansson", "jansson", &["src"],
        &["-I{here}/jansson", "-I{src}/src", "-DHAVE_CONFIG_H"]),
    ("expat", "expat", &["expat/lib/xmlparse.c", "expat/lib/xmlrole.c", "expat/lib/xmltok.c"],
        &["-I{here}/expat", "-I{src}/expat/lib"]),
    ("jpeg", "libjpeg-turbo", &[
         "jaricom.c", "jcapimin.c", "jcapistd.c", "jcarith.c", "jccoefct.c", "jccolor.c", "jcdctmgr.c", "jchuff.c",
         "jcicc.c", "jcinit.c", "jcmainct.c", "jcmarker.c", "jcmaster.c", "jcomapi.c", "jcparam.c", "jcphuff.c",
         "jcprepct.c", "jcsample.c", "jctrans.c", "jdapimin.c", "jdapistd.c", "jdarith.c", "jdatadst.c", "jdatasrc.c",
         "jdcoefct.c", "jdcolor.c", "jddctmgr.c", "jdhuff.c", "jdicc.c", "jdinput.c", "jdmainct.c", "jdmarker.c",
         "jdmaster.c", "jdmerge.c", "jdphuff.c", "jdpostct.c", "jdsample.c", "jdtrans.c", "jerror.c", "jfdctflt.c",
         "jfdctfst.c", "jfdctint.c", "jidctflt.c", "jidctfst.c", "jidctint.c", "jidctred.c", "jmemmgr.c", "jmemnobs.c",
         "jquant1.c", "jquant2.c", "jsimd_none.c", "jutils.c"
        ], &["-I{here}/jpeg"]),
    ("aes", "", &[], &[]),
    ("sha256", "", &[], &[]),
    ("sha3", "", &[], &[]),
    ("core", "", &[], &[]),
    ("fsm", "", &[], &[]),
    ("expr", "", &[], &[]),
    ("virtual", "", &[], &[]),
    ("chase", "", &[], &[]),
    ("join", "", &[], &[]),
    ("qsort", "", &[], &[]),
    ("wikisort", "", &[], &[]),
    ("matmul", "", &[], &[]),
    ("stencil", "", &[], &[]),
    ("nbody", "", &[], &[]),
    ("fib", "", &[], &[]),
];
