//! Builds plugins as build scripts do, loads them and calls them.

use sfi_build::{Error, Mode, Plugin};
use sfi_loader::{DomainSpec, TypedFn, World};
use std::path::{Path, PathBuf};

/// A folder with sources. It gives plugins the settings that Cargo gives build scripts.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path(name), text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Begins a plugin. The crate `cc` needs a target and a host, which Cargo tells build scripts.
    fn plugin(&self, name: &str) -> Plugin {
        let target = "x86_64-unknown-linux-gnu";
        Plugin::new(name).out_dir(self.0.path()).compiler(|cc| cc.target(target).host(target))
    }
}

fn call(path: &Path, mode: Mode, function: &str, argument: i64) -> i64 {
    let spec = DomainSpec::new("plugin").mode(mode).whole_archive("plugin.a", std::fs::read(path).unwrap());
    let mut world = World::builder().domain(spec).build().unwrap();
    let function: TypedFn<fn(i64) -> i64> = world.domain("plugin").unwrap().export(function).unwrap();
    function.call(&mut world, (argument,)).unwrap()
}

#[test]
fn sources_become_a_plugin_in_each_mode() {
    let folder = Folder::new(&[
        ("a.c", "long twice(long); long both(long x) { return twice(x) + SEVEN; }"),
        ("b.cc", "extern \"C\" long twice(long x) { return 2 * x; }"),
    ]);
    for mode in [Mode::Write, Mode::Full, Mode::Match] {
        let c = folder.plugin("c").mode(mode).file(folder.path("a.c")).compiler(|cc| cc.define("SEVEN", "7"));
        let both = c.try_build().unwrap();
        let twice = folder.plugin("cc").mode(mode).file(folder.path("b.cc")).compiler(|cc| cc.cpp(true));
        let twice = twice.try_build().unwrap();
        assert!(both.path.ends_with("c.sfi.a"));
        let joined = folder.plugin("joined").mode(mode);
        assert!(matches!(joined.try_build(), Err(Error::NoObjects)));
        let read = |path: &Path| std::fs::read(path).unwrap();
        let spec = DomainSpec::new("plugin")
            .mode(mode)
            .whole_archive("c.a", read(&both.path))
            .whole_archive("cc.a", read(&twice.path));
        let mut world = World::builder().domain(spec).build().unwrap();
        let both: TypedFn<fn(i64) -> i64> = world.domain("plugin").unwrap().export("both").unwrap();
        assert_eq!(both.call(&mut world, (4,)).unwrap(), 15);
    }
}

#[test]
fn a_plugin_with_a_budget_ends_when_it_is_used_up() {
    let folder = Folder::new(&[("spin.c", "long spin(long n) { for (volatile long i = 0; i < n; i++); return n; }")]);
    for mode in [Mode::Write, Mode::Full] {
        let plugin = || folder.plugin("spin").mode(mode).file(folder.path("spin.c"));
        let load = |path: &Path| {
            let spec = DomainSpec::new("spin").mode(mode).instructions(10_000);
            World::builder().domain(spec.whole_archive("spin.a", std::fs::read(path).unwrap())).build()
        };
        assert!(load(&plugin().try_build().unwrap().path).is_err(), "code that does not pay");
        let mut world = load(&plugin().budget().try_build().unwrap().path).unwrap();
        let spin: TypedFn<fn(i64) -> i64> = world.domain("spin").unwrap().export("spin").unwrap();
        assert_eq!(spin.call(&mut world, (100,)).unwrap(), 100);
        let ended = spin.call(&mut world, (1 << 40,)).unwrap_err().to_string();
        assert!(ended.contains("budget"), "{ended}");
    }
}

/// All members are linked, even those that no code needs.
#[test]
fn an_archive_is_linked_as_a_whole() {
    let folder = Folder::new(&[
        ("state.c", "long state;"),
        ("hook.c", "extern long state; __attribute__((constructor)) static void hook(void) { state = 40; }"),
        ("get.c", "extern long state; long get(long x) { return state + x; }"),
    ]);
    let files = ["state.c", "hook.c", "get.c"].map(|name| folder.path(name));
    let built = folder.plugin("whole").files(files).try_build().unwrap();
    assert_eq!(call(&built.path, Mode::Write, "get", 2), 42);
}

#[test]
fn a_refusal_names_object_and_instruction() {
    let folder = Folder::new(&[("a.c", "void f(void *to) { __asm__ volatile(\"mov %0,%%rsp\" :: \"r\"(to)); }")]);
    let error = folder.plugin("refused").file(folder.path("a.c")).try_build().unwrap_err();
    let Error::Refused(objects) = &error else { panic!("{error}") };
    assert_eq!(objects.len(), 1);
    assert!(error.to_string().contains("SFI-W04"), "{error}");
    let all = folder.plugin("left").file(folder.path("a.c")).skip_refused().try_build().unwrap();
    assert!(all.warnings.iter().any(|warning| warning.contains("is left out")), "{:?}", all.warnings);
}

#[test]
fn a_library_of_the_distribution_is_taken_as_it_is() {
    let folder = Folder::new(&[]);
    let library = "/usr/lib/x86_64-linux-gnu/libz.a";
    assert!(Path::new(library).exists(), "run `cargo xtask setup`");
    let built = folder.plugin("z").archive(library).try_build().unwrap();
    let spec = DomainSpec::new("z").archive("z.a", std::fs::read(&built.path).unwrap()).exports(["adler32"]);
    // The library needs malloc and free of a libc, but adler32 does not.
    let mut world = World::builder().domain(spec).build().unwrap();
    let adler: TypedFn<fn(u64, u64, u32) -> u64> = world.domain("z").unwrap().export("adler32").unwrap();
    assert_eq!(adler.call(&mut world, (1, 0, 0)).unwrap(), 1);
}

#[test]
fn what_is_missing_is_named() {
    let folder = Folder::new(&[("text.a", "not an archive")]);
    let missing = folder.plugin("p").archive(folder.path("none.a")).try_build().unwrap_err();
    assert!(missing.to_string().contains("none.a"), "{missing}");
    let text = folder.plugin("p").archive(folder.path("text.a")).try_build().unwrap_err();
    assert!(matches!(text, Error::Refused(_)), "{text}");
    let none = folder.plugin("p").rust(folder.path("")).try_build().unwrap_err();
    assert!(matches!(none, Error::Cargo { .. }), "{none}");
}
