//! Builds the plugins that the host embeds.

use sfi_build::Plugin;

fn main() {
    Plugin::new("area").file("../plugin.c").build();
    Plugin::new("shape").file("../shape.cc").compiler(|cc| cc.cpp(true)).build();
    Plugin::new("distinct").rust("../rust").build();
}
