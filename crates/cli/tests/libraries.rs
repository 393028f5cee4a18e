//! `dlopen`, `dlsym` and `dlclose` of a domain with musl, over libraries that its manifest grants.
//!
//! Needs musl-gcc (Debian package musl-tools). A missing one fails the test.

mod support;

use support::Bench;

const APP: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

long total = 1;
void add(long n) { total += n; }

long work(void) {
    void *none = dlopen("libother.so", RTLD_NOW);
    printf("other: %s, ", none ? "open" : "none");
    char *first = dlerror(), *second = dlerror();
    printf("%s, then %s\n", first ? "an error" : "no error", second ? "an error" : "no error");
    void *codec = dlopen("/usr/lib/libcodec.so", RTLD_NOW);
    if (!codec) return puts(dlerror());
    long (*twice)(long) = (long (*)(long))dlsym(codec, "twice");
    const char *text = dlsym(codec, "text");
    printf("%ld %s %ld\n", twice(21), text, total);
    printf("%d %d\n", dlsym(codec, "nothing") == NULL, dlsym(RTLD_DEFAULT, "add") == (void *)add);
    int closed = dlclose(codec), again = dlclose(codec);
    printf("%d %d %ld\n", closed, again, total);
    fflush(stdout);
    return 0;
}
"#;

const CODEC: &str = r#"
#include <string.h>
extern long total;
void add(long);
char text[16];
__attribute__((constructor)) static void begin(void) { strcpy(text, "opened"); add(10); }
__attribute__((destructor)) static void end(void) { add(100); }
long twice(long n) { return 2 * n; }
"#;

#[test]
fn a_domain_opens_a_granted_library() {
    let bench = Bench::new();
    bench.write("app.c", APP.as_bytes());
    bench.write("codec.c", CODEC.as_bytes());
    for mode in ["write", "full", "match"] {
        let sfi = |arguments: &[&str]| {
            let output = support::sfi(&bench, arguments).env("SFI_MODE", mode).output().expect("sfi runs");
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        sfi(&["cc", "--plugin", "-O2", "app.c", "-o", "app.sfi.a"]);
        sfi(&["cc", "-O2", "-c", "codec.c", "-o", "codec.o"]);
        sfi(&["rewrite", "--mode", mode, "codec.o", "-o", "codec.sfi.o"]);
        let manifest = format!(
            "[domains.app]\nobjects = ['app.sfi.a']\nmode = '{mode}'\nlibraries.'libcodec.so' = ['codec.sfi.o']\n\
             syscalls.allow = ['io', 'memory']\n[entry]\ndomain = 'app'\nfunction = 'work'\n"
        );
        bench.write("domains.toml", manifest.as_bytes());
        let output = bench.run(&["run", "domains.toml"], 0);
        let expected = "other: none, an error, then no error\n42 opened 11\n1 1\n0 -1 111\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{mode}");
    }
}
