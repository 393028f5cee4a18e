//! The programs that are compared.

use anyhow::Context;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Some programs out of one package.
pub struct Case {
    pub name: &'static str,
    pub package: &'static str,
    /// Makes files in the work directory.
    pub prepare: fn(&Path, &Path) -> anyhow::Result<()>,
    /// Sources of a library that all programs link: patterns below the package.
    pub common: &'static [&'static str],
    /// One program for each source.
    pub programs: &'static [&'static str],
    /// Files left out of the library's patterns.
    pub except: &'static [&'static str],
    /// `{src}` is the package's directory, `{work}` the work directory.
    pub flags: &'static [&'static str],
    pub runs: &'static [Run],
    /// Only with `SFI_PROGRAMS=all`.
    pub long: bool,
}

/// One run of a program.
pub struct Run {
    pub args: &'static [&'static str],
    /// A pattern of one file, `work:NAME`, or empty.
    pub stdin: &'static str,
    /// Patterns of files copied beside the program, or into a directory there with `DIRECTORY=`;
    /// `fixture:` is `fixtures/programs`.
    pub files: &'static [&'static str],
    /// The expected status, natively too.
    pub status: Option<i32>,
}

const fn run(args: &'static [&'static str], stdin: &'static str, files: &'static [&'static str]) -> Run {
    Run { args, stdin, files, status: Some(0) }
}

/// The portable part of Lua's own test suite. Each file must pass. The macro also makes a directory
/// for temporary files.
macro_rules! lua_tests {
    ($($name:literal)*) => {
        &[$(run(&["portable.lua", $name], "", &["fixture:lua-tests/*.lua", "tmp=fixture:lua-tests/portable.lua"])),*]
    };
}

const fn any(args: &'static [&'static str], stdin: &'static str, files: &'static [&'static str]) -> Run {
    Run { args, stdin, files, status: None }
}

fn nothing(_: &Path, _: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// All cases, long ones first.
pub const CASES: &[Case] = &[
    Case {
        name: "sqlite",
        package: "sqlite3",
        prepare: sqlite,
        common: &["sqlite3.c"],
        programs: &["shell.c"],
        except: &[],
        flags: &[
            "-O2",
            "-I{src}",
            "-DSQLITE_THREADSAFE=0",
            "-DSQLITE_OMIT_LOAD_EXTENSION",
            "-DSQLITE_ENABLE_FTS5",
            "-DSQLITE_ENABLE_RTREE",
        ],
        runs: &[run(&["-batch", "file.db"], "work:script.sql", &[])],
        long: false,
    },
    Case {
        name: "lua",
        package: "lua5.4",
        prepare: nothing,
        common: &["src/l*.c"],
        programs: &["src/lua.c"],
        except: &["src/lua.c", "src/luac.c"],
        flags: &["-O2"],
        runs: &[
            run(&["language.lua"], "", &["fixture:lua/*.lua"]),
            run(&["strings.lua"], "", &["fixture:lua/*.lua"]),
            run(&["programs.lua"], "", &["fixture:lua/*.lua"]),
            run(&["files.lua"], "fixture:lua/language.lua", &["fixture:lua/*.lua"]),
            run(&["-e", "print(pcall(error, {1}) == false, select('#', load('return ...')(1, nil)))"], "", &[]),
            Run { args: &["-e", "error('seen by the host')"], stdin: "", files: &[], status: Some(1) },
        ],
        long: false,
    },
    Case {
        name: "lua-tests",
        package: "lua5.4",
        prepare: nothing,
        common: &["src/l*.c"],
        programs: &["src/lua.c"],
        except: &["src/lua.c", "src/luac.c"],
        flags: &["-O2", "-DLUA_USE_POSIX"],
        runs: lua_tests!(
            "api.lua" "attrib.lua" "big.lua" "bitwise.lua" "bwcoercion.lua" "calls.lua" "closure.lua" "code.lua"
            "constructs.lua" "coroutine.lua" "cstack.lua" "db.lua" "errors.lua" "events.lua" "files.lua" "gc.lua"
            "gengc.lua" "goto.lua" "literals.lua" "locals.lua" "math.lua" "nextvar.lua" "pm.lua" "sort.lua"
            "strings.lua" "tpack.lua" "utf8.lua" "vararg.lua" "verybig.lua"
        ),
        long: false,
    },
    Case {
        name: "zstd",
        package: "libzstd",
        prepare: nothing,
        common: &[
            "lib/common/*.c",
            "lib/compress/*.c",
            "lib/decompress/*.c",
            "lib/decompress/*.S",
            "lib/dictBuilder/*.c",
            "programs/util.c",
            "programs/timefn.c",
            "programs/fileio.c",
            "programs/fileio_asyncio.c",
            "programs/bench*.c",
            "programs/datagen.c",
            "programs/dibio.c",
            "programs/zstdcli_trace.c",
        ],
        programs: &["programs/zstdcli.c"],
        except: &[],
        flags: &[
            "-O1",
            "-DZSTD_LEGACY_SUPPORT=0",
            "-DXXH_NAMESPACE=ZSTD_",
            "-I{src}/lib",
            "-I{src}/lib/common",
            "-I{src}/programs",
        ],
        runs: &[
            run(&["-q", "-3", "CHANGELOG", "fileio.c"], "", &["CHANGELOG", "programs/fileio.c"]),
            run(&["-q", "-19", "-c", "fileio.c"], "", &["programs/fileio.c"]),
            run(&["-q", "-c", "--long", "-7"], "CHANGELOG", &[]),
            run(&["-q", "-d", "rle-first-block.zst", "empty-block.zst"], "", &["tests/golden-decompression/*.zst"]),
            run(
                // The samples are named, because `-r .` takes them in the order of the directory,
                // which can differ between two copies.
                &[
                    "-q",
                    "--train",
                    "-B1024",
                    "-o",
                    "dictionary",
                    "fileio.c",
                    "util.c",
                    "zstdcli.c",
                    "dibio.c",
                    "benchzstd.c",
                    "datagen.c",
                ],
                "",
                &["programs/*.c"],
            ),
        ],
        long: false,
    },
    Case {
        name: "zstd-fuzzer",
        package: "libzstd",
        prepare: nothing,
        common: &[
            "lib/common/*.c",
            "lib/compress/*.c",
            "lib/decompress/*.c",
            "lib/decompress/*.S",
            "lib/dictBuilder/*.c",
            "programs/util.c",
            "programs/timefn.c",
            "programs/datagen.c",
        ],
        programs: &["tests/fuzzer.c", "tests/invalidDictionaries.c"],
        except: &[],
        flags: &[
            "-O2",
            "-DZSTD_LEGACY_SUPPORT=0",
            "-DXXH_NAMESPACE=ZSTD_",
            "-I{src}/lib",
            "-I{src}/lib/common",
            "-I{src}/lib/compress",
            "-I{src}/lib/dictBuilder",
            "-I{src}/programs",
        ],
        runs: &[any(&["-i20", "-s7", "-q", "--no-big-tests"], "", &[])],
        long: true,
    },
    Case {
        name: "xz-tests",
        package: "xz-utils",
        prepare: xz,
        common: &XZ_LIBRARY,
        programs: &["tests/test_*.c"],
        except: &XZ_EXCEPT,
        flags: &XZ_FLAGS,
        runs: &[any(&[], "", &["files=tests/files/*"])],
        long: false,
    },
    Case {
        name: "xzdec",
        package: "xz-utils",
        prepare: xz,
        common: &XZ_LIBRARY,
        programs: &["src/xzdec/xzdec.c"],
        except: &XZ_EXCEPT,
        flags: &XZ_FLAGS,
        runs: &[
            run(
                &[
                    "good-1-lzma2-1.xz",
                    "good-1-x86-lzma2.xz",
                    "good-1-arm64-lzma2-1.xz",
                    "good-2-lzma2.xz",
                    "good-1-3delta-lzma2.xz",
                ],
                "",
                &["tests/files/good-*.xz"],
            ),
            run(
                &[
                    "good-1-delta-lzma2.tiff.xz",
                    "good-1-check-sha256.xz",
                    "good-1-check-crc64.xz",
                    "good-0cat-empty.xz",
                    "good-1-sparc-lzma2.xz",
                ],
                "",
                &["tests/files/good-*.xz"],
            ),
            Run { args: &["bad-1-check-sha256.xz"], stdin: "", files: &["tests/files/bad-1-*.xz"], status: Some(1) },
            Run { args: &["bad-1-lzma2-8.xz"], stdin: "", files: &["tests/files/bad-1-*.xz"], status: Some(1) },
        ],
        long: false,
    },
    Case {
        name: "expat",
        package: "expat",
        prepare: |_, work| Ok(fs::write(work.join("expat_config.h"), "")?),
        common: &[
            "expat/lib/xmlparse.c",
            "expat/lib/xmlrole.c",
            "expat/lib/xmltok.c",
            "expat/tests/chardata.c",
            "expat/tests/structdata.c",
            "expat/tests/minicheck.c",
            "expat/tests/memcheck.c",
        ],
        programs: &["expat/tests/runtests.c"],
        except: &[],
        flags: &[
            "-O2",
            "-DHAVE_EXPAT_CONFIG_H",
            "-DXML_NS",
            "-DXML_DTD",
            "-DXML_CONTEXT_BYTES=1024",
            "-DBYTEORDER=1234",
            "-DXML_POOR_ENTROPY",
            "-I{work}",
            "-I{src}/expat/lib",
        ],
        runs: &[run(&["-v"], "", &[])],
        long: false,
    },
    Case {
        name: "libpng",
        package: "libpng1.6",
        prepare: |source, work| {
            fs::copy(source.join("scripts/pnglibconf.h.prebuilt"), work.join("pnglibconf.h"))?;
            Ok(())
        },
        common: &[
            "png*.c",
            "../zlib/adler32.c",
            "../zlib/c*.c",
            "../zlib/deflate.c",
            "../zlib/inf*.c",
            "../zlib/trees.c",
            "../zlib/zutil.c",
        ],
        programs: &["pngtest.c"],
        except: &["pngtest.c"],
        flags: &["-O2", "-DPNG_INTEL_SSE_OPT=0", "-I{work}", "-I{src}", "-I{src}/../zlib"],
        runs: &[
            run(&["pngtest.png", "out.png"], "", &["pngtest.png"]),
            run(
                &["-m", "basn0g01.png", "basn2c16.png", "basn3p08.png", "basn6a16.png"],
                "",
                &["contrib/pngsuite/*.png"],
            ),
        ],
        long: false,
    },
    Case {
        name: "zlib",
        package: "zlib",
        prepare: nothing,
        common: &["adler32.c", "c*.c", "deflate.c", "gz*.c", "inf*.c", "trees.c", "uncompr.c", "zutil.c"],
        programs: &["test/example.c", "test/infcover.c"],
        except: &[],
        flags: &["-O2", "-D_LARGEFILE64_SOURCE=1", "-DHAVE_UNISTD_H", "-I{src}"],
        runs: &[any(&["example.gz"], "", &[])],
        long: false,
    },
    Case {
        name: "minigzip",
        package: "zlib",
        prepare: nothing,
        common: &["adler32.c", "c*.c", "deflate.c", "gz*.c", "inf*.c", "trees.c", "uncompr.c", "zutil.c"],
        programs: &["test/minigzip.c"],
        except: &[],
        flags: &["-O3", "-D_LARGEFILE64_SOURCE=1", "-DHAVE_UNISTD_H", "-I{src}"],
        runs: &[
            run(&["-9", "ChangeLog", "deflate.c"], "", &["ChangeLog", "deflate.c"]),
            run(&[], "ChangeLog", &[]),
            Run { args: &["-d", "none.gz"], stdin: "", files: &[], status: Some(1) },
        ],
        long: false,
    },
    Case {
        name: "bzip2",
        package: "bzip2",
        prepare: nothing,
        common: &["blocksort.c", "huffman.c", "crctable.c", "randtable.c", "compress.c", "decompress.c", "bzlib.c"],
        programs: &["bzip2.c"],
        except: &[],
        flags: &["-O2", "-D_FILE_OFFSET_BITS=64", "-I{src}"],
        runs: &[
            run(&["-1"], "sample1.ref", &[]),
            run(&["-2"], "sample2.ref", &[]),
            run(&["-3"], "sample3.ref", &[]),
            run(&["-d"], "sample1.bz2", &[]),
            run(&["-ds"], "sample3.bz2", &[]),
            run(&["-k", "sample1.ref", "sample2.ref"], "", &["sample*.ref"]),
            Run { args: &["-t", "sample1.ref"], stdin: "", files: &["sample1.ref"], status: Some(2) },
        ],
        long: false,
    },
    Case {
        name: "lz4",
        package: "lz4",
        prepare: nothing,
        common: &["lib/*.c", "programs/lz4io.c", "programs/bench.c", "programs/datagen.c"],
        programs: &["programs/lz4cli.c"],
        except: &[],
        flags: &["-O3", "-DXXH_NAMESPACE=LZ4_", "-I{src}/lib", "-I{src}/programs"],
        runs: &[
            run(&["-q", "-9", "lz4hc.c", "out.lz4"], "", &["lib/lz4hc.c"]),
            run(&["-q", "-1", "-BD", "-c"], "lib/lz4.c", &[]),
            Run { args: &["-q", "-d", "lz4hc.c", "out"], stdin: "", files: &["lib/lz4hc.c"], status: None },
        ],
        long: false,
    },
    Case {
        name: "lz4-tests",
        package: "lz4",
        prepare: nothing,
        common: &["lib/*.c"],
        programs: &["tests/fuzzer.c", "tests/decompress-partial.c", "tests/decompress-partial-usingDict.c"],
        except: &[],
        flags: &["-O2", "-DXXH_NAMESPACE=LZ4_", "-I{src}/lib", "-I{src}/programs"],
        runs: &[any(&["-i50", "-s3"], "", &[])],
        long: true,
    },
];

const XZ_LIBRARY: [&str; 11] = [
    "src/common/tuklib_physmem.c",
    "src/common/tuklib_progname.c",
    "src/common/tuklib_exit.c",
    "src/common/tuklib_cpucores.c",
    "src/liblzma/common/*.c",
    "src/liblzma/check/*.c",
    "src/liblzma/lz/*.c",
    "src/liblzma/lzma/*.c",
    "src/liblzma/rangecoder/*.c",
    "src/liblzma/simple/*.c",
    "src/liblzma/delta/*.c",
];
const XZ_EXCEPT: [&str; 10] = [
    "crc32_small.c",
    "crc64_small.c",
    "crc32_tablegen.c",
    "crc64_tablegen.c",
    "stream_encoder_mt.c",
    "stream_decoder_mt.c",
    "hardware_cputhreads.c",
    "fastpos_tablegen.c",
    "price_tablegen.c",
    "lzma_encoder_optimum_tablegen.c",
];
const XZ_FLAGS: [&str; 18] = [
    "-O2",
    "-std=gnu99",
    "-include",
    "{work}/config.h",
    "-DHAVE_CONFIG_H",
    "-I{work}",
    "-I{src}/src/common",
    "-I{src}/src/liblzma/api",
    "-I{src}/src/liblzma/common",
    "-I{src}/src/liblzma/check",
    "-I{src}/src/liblzma/lz",
    "-I{src}/src/liblzma/lzma",
    "-I{src}/src/liblzma/rangecoder",
    "-I{src}/src/liblzma/simple",
    "-I{src}/src/liblzma/delta",
    "-I{src}/src/liblzma",
    "-I{src}/tests",
    "-DTUKLIB_SYMBOL_PREFIX=lzma_",
];

/// Writes the result of xz's configure on a machine with musl, without threads.
fn xz(_: &Path, work: &Path) -> anyhow::Result<()> {
    let mut text = String::new();
    for name in [
        "STDBOOL_H",
        "STDINT_H",
        "INTTYPES_H",
        "STDLIB_H",
        "STRING_H",
        "CHECK_CRC32",
        "CHECK_CRC64",
        "CHECK_SHA256",
        "ENCODERS",
        "DECODERS",
        "LZIP_DECODER",
        "_BOOL",
    ] {
        writeln!(text, "#define HAVE_{name} 1")?;
    }
    for name in ["LZMA1", "LZMA2", "DELTA", "X86", "ARM", "ARMTHUMB", "ARM64", "POWERPC", "IA64", "SPARC"] {
        writeln!(text, "#define HAVE_ENCODER_{name} 1\n#define HAVE_DECODER_{name} 1")?;
    }
    for name in ["HC3", "HC4", "BT2", "BT3", "BT4"] {
        writeln!(text, "#define HAVE_MF_{name} 1")?;
    }
    text.push_str("#define HAVE_VISIBILITY 0\n#define SIZEOF_SIZE_T 8\n#define TUKLIB_FAST_UNALIGNED_ACCESS 1\n#define ASSUME_RAM 128\n");
    text.push_str("#define PACKAGE_NAME \"XZ Utils\"\n#define PACKAGE_BUGREPORT \"nobody\"\n#define PACKAGE_URL \"none\"\n#define PACKAGE \"xz\"\n");
    Ok(fs::write(work.join("config.h"), text)?)
}

/// Writes a script of a few thousand statements: tables, indexes, joins, windows, transactions,
/// triggers, full text, JSON, errors.
fn sqlite(source: &Path, work: &Path) -> anyhow::Result<()> {
    source.join("sqlite3.c").exists().then_some(()).context("sqlite3.c is missing: run `cargo xtask sources`")?;
    let mut sql = String::from(
        ".mode list\n.headers on\nCREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT UNIQUE, age INT, note BLOB);\n\
         CREATE TABLE bought(person INT REFERENCES person(id), what TEXT, price REAL, day TEXT);\n\
         CREATE INDEX by_person ON bought(person, price);\nCREATE TABLE log(text);\n\
         CREATE TRIGGER told AFTER DELETE ON person BEGIN INSERT INTO log VALUES('gone ' || old.name); END;\n\
         CREATE VIRTUAL TABLE words USING fts5(text);\nCREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, y0, y1);\n",
    );
    let mut state = 12345u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    for i in 0..800 {
        let age = next(90);
        writeln!(sql, "INSERT INTO person VALUES({i}, 'name{}', {age}, x'{:08x}');", i * 7919 % 1000, next(1 << 32))?;
    }
    sql.push_str("BEGIN;\n");
    for i in 0..2000 {
        let (person, cents, day) = (next(800), next(100_000), next(28) + 1);
        writeln!(sql, "INSERT INTO bought VALUES({person}, 'thing {}', {cents} / 100.0, '2024-02-{day:02}');", i % 37)?;
        match i % 100 {
            50 => sql.push_str("COMMIT;\nBEGIN;\n"),
            70 => sql.push_str("SAVEPOINT s; DELETE FROM bought WHERE price < 500; ROLLBACK TO s;\n"),
            90 => writeln!(sql, "INSERT INTO words VALUES('the {} fox number {i} jumps over {}');", cents, person)?,
            _ => {}
        }
        if i % 20 == 0 {
            writeln!(sql, "INSERT INTO boxes VALUES({i}, {}, {}, {}, {});", i % 91, i % 91 + 5, i % 53, i % 53 + 9)?;
        }
    }
    sql.push_str("COMMIT;\n");
    for i in 0..200 {
        writeln!(
            sql,
            "SELECT name, count(*), round(sum(price), 2) FROM person JOIN bought ON id = person WHERE age = {} GROUP BY id ORDER BY 3 DESC LIMIT 3;",
            i % 90
        )?;
        writeln!(sql, "UPDATE person SET age = age + 1, note = zeroblob({}) WHERE id % 200 = {i};", i % 50)?;
        writeln!(sql, "DELETE FROM person WHERE id = {};", i * 4 + 1)?;
    }
    sql.push_str(
        "SELECT count(*), min(text), max(text) FROM log;\n\
         SELECT name, age, rank() OVER (PARTITION BY age % 5 ORDER BY name) FROM person ORDER BY id LIMIT 40;\n\
         WITH RECURSIVE f(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM f LIMIT 60) SELECT group_concat(a) FROM f;\n\
         SELECT snippet(words, 0, '[', ']', '...', 4) FROM words WHERE words MATCH 'fox NEAR jumps' ORDER BY rowid LIMIT 10;\n\
         SELECT id FROM boxes WHERE x0 > 10 AND x1 < 40 AND y0 > 5 AND y1 < 30 ORDER BY id;\n\
         SELECT json_group_array(json_object('n', name, 'a', age)) FROM (SELECT * FROM person ORDER BY id LIMIT 20);\n\
         SELECT day, printf('%08.3f', sum(price)), upper(hex(quote(max(what)))) FROM bought GROUP BY day ORDER BY day;\n\
         SELECT strftime('%Y-%m-%d %H:%M', 1700000000, 'unixepoch', '+3 months'), julianday('2024-02-29');\n\
         SELECT typeof(1/0), 7 % 3, 1e308 * 10, abs(-9223372036854775807), substr('h\u{e9}llo', 2, 3), like('a%', 'Abc');\n\
         .mode column\nSELECT * FROM person ORDER BY age DESC, id LIMIT 15;\n.mode insert t\nSELECT * FROM bought ORDER BY price LIMIT 10;\n\
         .schema\nEXPLAIN QUERY PLAN SELECT * FROM person, bought WHERE id = person AND price > 5 ORDER BY day;\n\
         PRAGMA integrity_check;\nVACUUM;\nSELECT count(*) FROM person;\nREINDEX;\nANALYZE;\nSELECT tbl, stat FROM sqlite_stat1 ORDER BY 1, 2;\n.dump log\n",
    );
    Ok(fs::write(work.join("script.sql"), sql)?)
}
