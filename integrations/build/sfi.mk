# include sfi.mk: NAME.sfi.o from NAME.o, NAME.sfi.a from NAME.a. Objects are rewritten and
# verified, and there is no output without a verdict. Compile with -fPIE or -fPIC.
#   SFI              the program
#   SFI_MODE         write, full or match
#   SFI_POLICY       a policy file
#   SFI_REWRITEFLAGS further options of `sfi rewrite`, such as --skip-refused
SFI ?= sfi
SFI_MODE ?= write

define sfi_rewrite
rm -f $@
$(SFI) rewrite --mode $(SFI_MODE) $(SFI_REWRITEFLAGS) -o $@.new $<
$(SFI) verify --mode $(SFI_MODE) $(if $(SFI_POLICY),--policy $(SFI_POLICY)) -- $@.new
mv -f $@.new $@
endef

%.sfi.o: %.o $(SFI_POLICY)
	$(sfi_rewrite)

%.sfi.a: %.a $(SFI_POLICY)
	$(sfi_rewrite)
