//! Manifests of handlers, and engines with their handlers.

use anyhow::Context;
use sfi_ash::back::Backend;
use sfi_ash::engine::{DEFAULT_TICK, Engine};
use sfi_ash::handler::Handler;
use sfi_ash::manifest::Manifest;
use std::path::Path;

/// Reads a manifest.
pub fn manifest(path: &Path) -> anyhow::Result<Manifest> {
    let bytes = sfi_loader::manifest::file::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("`{}` is no manifest", path.display()))?;
    Ok(Manifest::parse(&text, path)?)
}

/// Makes an engine with the handlers of a manifest.
pub fn engine<B: Backend>(manifest: &Manifest, directory: &Path, backend: B) -> anyhow::Result<Engine<B>> {
    let tick = manifest.engine.tick.map_or(DEFAULT_TICK, |tick| tick.0);
    let mut engine = Engine::new(backend, tick, manifest.quotas());
    for spec in manifest.handlers(directory)? {
        let backend = engine.backend();
        let handler = Handler::new(spec, backend.memory(), backend.longest())?;
        engine.install(handler)?;
    }
    Ok(engine)
}
