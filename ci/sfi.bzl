"""sfi_verify: a target that is built only if its objects cannot leave their sandbox."""

def sfi_verify(name, srcs, sfi, options = "", **kwargs):
    """Verifies objects and archives.

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
