"""sfi_plugin and sfi_verify: sandboxed plugins in Bazel.

Rewriting and the verdict are actions, one for each object or archive. They and the reports depend
on the inputs and the program alone, so a shared cache or a cluster of remote executors answers each
object once for all.
"""

_KINDS = ["a", "o", "lo"]

def _objects(ctx):
    """The objects and archives of `srcs`, each with a name of its own below the target's folder.

    Other files of their targets are passed over. The second file of a name is `2/NAME`.
    """
    files = [file for file in ctx.files.srcs if file.extension in _KINDS]
    if not files:
        fail("no objects and no archives in srcs")
    seen = {}
    named = []
    for file in files:
        count = seen.get(file.basename, 0) + 1
        seen[file.basename] = count
        named.append((file, file.basename if count == 1 else "%d/%s" % (count, file.basename)))
    return named

def _options(ctx):
    return [ctx.expand_location(option, ctx.attr.data) for option in ctx.attr.options]

def _verify(ctx, file, name):
    """The report on a file, of an action that fails if the file can leave its sandbox."""
    report = ctx.actions.declare_file("%s/%s.sarif" % (ctx.label.name, name))
    ctx.actions.run(
        executable = ctx.executable.sfi,
        arguments = ["verify", "--mode", ctx.attr.mode, "--sarif", report.path] + _options(ctx) +
                    ["--", file.path],
        inputs = [file] + ctx.files.data,
        outputs = [report],
        mnemonic = "SfiVerify",
    )
    return report

def _sfi_plugin(ctx):
    outputs = []
    reports = []
    for file, name in _objects(ctx):
        rewritten = ctx.actions.declare_file("%s/unverified/%s" % (ctx.label.name, name))
        ctx.actions.run(
            executable = ctx.executable.sfi,
            arguments = ["rewrite", "--mode", ctx.attr.mode] + ctx.attr.rewrite_options +
                        ["-o", rewritten.path, file.path],
            inputs = [file],
            outputs = [rewritten],
            mnemonic = "SfiRewrite",
        )
        report = _verify(ctx, rewritten, name)

        # The output needs the verdict: nobody gets a file that was not verified.
        verified = ctx.actions.declare_file("%s/%s" % (ctx.label.name, name))
        ctx.actions.run_shell(
            command = 'cp -- "$1" "$2"',
            arguments = [rewritten.path, verified.path],
            inputs = [rewritten, report],
            outputs = [verified],
            mnemonic = "SfiPublish",
        )
        outputs.append(verified)
        reports.append(report)
    return [DefaultInfo(files = depset(outputs)), OutputGroupInfo(sarif = depset(reports))]

def _sfi_verify(ctx):
    return [DefaultInfo(files = depset([_verify(ctx, file, name) for file, name in _objects(ctx)]))]

_ATTRIBUTES = {
    "srcs": attr.label_list(
        allow_files = True,
        mandatory = True,
        doc = "Objects, archives, and targets that make them.",
    ),
    "sfi": attr.label(
        executable = True,
        allow_files = True,
        cfg = "exec",
        mandatory = True,
        doc = "The program. Not a file of the root package: Bazel looks for its name in PATH.",
    ),
    "mode": attr.string(default = "write", values = ["write", "full", "match"]),
    "options": attr.string_list(doc = "Options of `sfi verify`, such as --policy and $(location :policy.toml)."),
    "data": attr.label_list(allow_files = True, doc = "Files that the options name."),
}

sfi_plugin = rule(
    implementation = _sfi_plugin,
    attrs = dict(_ATTRIBUTES, rewrite_options = attr.string_list(doc = "Options of `sfi rewrite`, such as --skip-refused.")),
    doc = "Rewrites objects and archives and verifies them: NAME/plugin.a of plugin.a, and " +
          "NAME/2/plugin.a of a second file of that name. " +
          "The reports are in the output group `sarif`.",
)

sfi_verify = rule(
    implementation = _sfi_verify,
    attrs = _ATTRIBUTES,
    doc = "Verifies objects and archives: NAME/plugin.a.sarif is built only if plugin.a cannot leave its sandbox.",
)
