//! The files for users: an archive, a Debian package, a bill of materials, checksums.

use super::base::{Dist, execute, headline, names};
use super::build::{Built, SHARED};
use crate::python::Environment;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the sources, and their folders in a release.
const FILES: [(&str, &str); 18] = [
    ("crates/capi/include/sfi.h", "include"),
    ("crates/capi/include/sfi.hpp", "include"),
    ("crates/capi/include/sfi_abi.hpp", "include"),
    ("crates/capi/include/sfi_config.hpp", "include"),
    ("integrations/rlbox/rlbox_sfi_sandbox.hpp", "include"),
    ("crates/capi/sfi.pc", "lib/pkgconfig"),
    ("integrations/build/sfiConfig.cmake", "lib/cmake/sfi"),
    ("integrations/build/sfiConfigVersion.cmake", "lib/cmake/sfi"),
    ("integrations/build/sfi-toolchain.cmake", "lib/cmake/sfi"),
    ("integrations/build/meson.build", "share/sfi"),
    ("integrations/build/sfi.bzl", "share/sfi"),
    ("integrations/build/sfi.mk", "share/sfi"),
    ("integrations/build/sfi.ninja", "share/sfi"),
    ("README.md", "share/doc/sfi"),
    ("CHANGELOG.md", "share/doc/sfi"),
    ("docs/GUIDE.md", "share/doc/sfi"),
    ("LICENSE-MIT", "share/doc/sfi"),
    ("LICENSE-APACHE", "share/doc/sfi"),
];
/// Shells, and the places of their completion scripts.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/sfi"),
    ("fish", "share/fish/vendor_completions.d/sfi.fish"),
    ("zsh", "share/zsh/vendor-completions/_sfi"),
];

/// Products with a bill of materials, by the folders of their packages.
const PRODUCTS: [(&str, &str); 3] =
    [("sfi", "crates/cli"), ("libsfi", "crates/capi"), ("sfi-python", "integrations/python")];

/// Makes the files of a build for users.
pub fn files(dist: &Dist, built: &Built, tools: &Path, out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out)?;
    let stage = stage(dist, built)?;
    archives(dist, built, &stage, tools, out)?;
    let wheel = out.join(&built.wheel);
    std::fs::copy(built.programs.join(&built.wheel), &wheel).with_context(|| format!("{}", wheel.display()))?;
    PRODUCTS.iter().try_for_each(|(product, package)| materials(dist, built, tools, out, product, package))
}

/// Arranges a release's files as they lie below `/usr`.
fn stage(dist: &Dist, built: &Built) -> anyhow::Result<PathBuf> {
    headline("manual pages, completions, archives");
    let stage = built.folder.join(format!("sfi-{}-x86_64-linux", dist.version));
    let place = |from: &Path, to: PathBuf| -> anyhow::Result<()> {
        std::fs::create_dir_all(to.parent().context("no folder")?)?;
        std::fs::copy(from, &to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
        Ok(())
    };
    let sfi = stage.join("bin/sfi");
    place(&built.programs.join("sfi"), sfi.clone())?;
    for library in ["libsfi.a", SHARED] {
        place(&built.programs.join(library), stage.join("lib").join(library))?;
    }
    std::os::unix::fs::symlink(SHARED, stage.join("lib/libsfi.so"))?;
    for (file, folder) in FILES {
        let path = Path::new(file);
        place(&built.sources.join(path), stage.join(folder).join(path.file_name().context("no name")?))?;
    }
    execute(Command::new(&sfi).arg("man").arg(stage.join("share/man/man1")))?;
    for (shell, file) in SHELLS {
        let output = Command::new(&sfi).args(["completion", shell]).output().context("cannot run sfi")?;
        ensure!(output.status.success(), "sfi completion {shell} failed");
        let file = stage.join(file);
        std::fs::create_dir_all(file.parent().context("no folder")?)?;
        std::fs::write(file, output.stdout)?;
    }
    Ok(stage)
}

/// Packs the files, with equal bytes for equal files.
fn archives(dist: &Dist, built: &Built, stage: &Path, tools: &Path, out: &Path) -> anyhow::Result<()> {
    let name = stage.file_name().context("no name")?.to_string_lossy().into_owned();
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w"]);
    tar.arg(format!("--mtime=@{}", dist.time)).arg("--use-compress-program=gzip -n9").arg("-cf");
    execute(tar.arg(out.join(format!("{name}.tar.gz"))).arg(&name).current_dir(stage.parent().context("no root")?))?;
    // The Debian package takes the files from a folder of its sources. Its name has no version.
    let fixed = built.sources.join("target/stage");
    std::fs::create_dir_all(built.sources.join("target"))?;
    std::os::unix::fs::symlink(stage, fixed)?;
    let mut deb = Command::new(tools.join("cargo-deb"));
    deb.args(["--no-build", "--no-strip", "--locked", "-p", "sfi-cli", "--output"]).arg(out);
    execute(deb.env("SOURCE_DATE_EPOCH", &dist.time).current_dir(&built.sources))?;
    let made = names(out)?.into_iter().find(|name| name.as_encoded_bytes().ends_with(b".deb")).context("no package")?;
    let output =
        Command::new("dpkg-deb").arg("--contents").arg(out.join(made)).output().context("cannot run dpkg-deb")?;
    ensure!(links(&String::from_utf8_lossy(&output.stdout)), "the Debian package has a copy of {SHARED} as libsfi.so");
    Ok(())
}

/// Says whether a listing of a package has the library's name for linkers as a link.
fn links(listing: &str) -> bool {
    listing.lines().any(|line| line.ends_with(&format!("/libsfi.so -> {SHARED}")))
}

/// Tries the package for Python as users install it.
pub fn wheel(dist: &Dist, built: &Built, python: &Environment) -> anyhow::Result<()> {
    headline("the package for Python");
    python.try_wheel(&dist.out.join(&built.wheel))
}

/// Writes the bill of materials of a product, in the form of CycloneDX. It says nothing of the time
/// and the folder of the build.
fn materials(dist: &Dist, built: &Built, tools: &Path, out: &Path, product: &str, package: &str) -> anyhow::Result<()> {
    headline(&format!("bill of materials of {product}"));
    let mut cyclonedx = Command::new(tools.join("cargo-cyclonedx"));
    cyclonedx.args(["cyclonedx", "--quiet", "--format", "json", "--no-build-deps", "--override-filename", "materials"]);
    let package = built.sources.join(package);
    cyclonedx.args(["--manifest-path"]).arg(package.join("Cargo.toml"));
    execute(cyclonedx.env("SOURCE_DATE_EPOCH", &dist.time).current_dir(&built.sources))?;
    let made = package.join("materials.json");
    let text = std::fs::read_to_string(&made).with_context(|| format!("{}", made.display()))?;
    let text = text.replace(&built.sources.display().to_string(), "/sfi");
    // The decoder is in every product.
    ensure!(text.contains("\"name\": \"iced-x86\""), "{} lists no crates", made.display());
    std::fs::write(out.join(format!("{product}-{}.cdx.json", dist.version)), text)?;
    Ok(())
}

/// Writes the checksums of all files of the release.
pub fn checksums(dist: &Dist) -> anyhow::Result<()> {
    let mut sums = Command::new("sha256sum");
    let output = sums.args(names(&dist.out)?).current_dir(&dist.out).output().context("cannot run sha256sum")?;
    ensure!(output.status.success(), "sha256sum failed");
    std::fs::write(dist.out.join("SHA256SUMS"), &output.stdout)?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn a_copy_of_the_library_is_no_link() {
        assert!(links("lrwxrwxrwx root/root 0 2026-01-01 00:00 ./usr/lib/libsfi.so -> libsfi.so.0\n"));
        assert!(!links("-rw-r--r-- root/root 9 2026-01-01 00:00 ./usr/lib/libsfi.so\n./usr/lib/libsfi.so.0\n"));
    }
}
