"""sfi_plugin and sfi_verify: sandboxed plugins in Bazel.

Rewriting and the verdict are actions: they depend on their inputs and the program alone, so a shared
cache or a cluster of remote executors verifies each object once for all.
"""

def sfi_plugin(name, srcs, sfi, mode = "write", options = "", **kwargs):
    """Rewrites objects or archives, one output each, and verifies them.

    Args:
      name: the target. `plugin.o` gives `name/plugin.o`.
      srcs: labels of objects and archives, each one file.
      sfi: label of the program.
      mode: write, full or match.
      options: further options of `sfi verify`, one string, such as `--policy $(location :policy.toml)`.
      **kwargs: handed on to the genrule.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [name + "/" + src.split(":")[-1].split("/")[-1] for src in srcs],
        tools = [sfi],
        cmd = "$(execpath %s) rewrite --mode %s -o $(RULEDIR)/%s/ $(SRCS) && $(execpath %s) verify --mode %s %s -- $(OUTS)" % (sfi, mode, name, sfi, mode, options),
        **kwargs
    )

def sfi_verify(name, srcs, sfi, options = "", **kwargs):
    """Verifies objects and archives: the target is built only if none can leave its sandbox.

    Args:
      name: the target; it makes the file `name`.sarif.
      srcs: labels of objects and archives.
      sfi: label of the program.
      options: options of `sfi verify`, one string.
      **kwargs: handed on to the genrule.
    """
    native.genrule(
        name = name,
        srcs = srcs,
        outs = [name + ".sarif"],
        tools = [sfi],
        cmd = "$(execpath %s) verify --format sarif %s -- $(SRCS) > $@" % (sfi, options),
        **kwargs
    )
