# mksh with its own script, and its tests, which a program of Perl runs. Their results get the usual
# form. Failures that mksh ignores are skipped tests.
CATEGORIES = shell:legacy-no,int:32,shell:textmode-no,shell:binmode-yes,stdout-ed,no-stderr-ed,regress:no-ctty

all:
	sh ./Build.sh -r

check:
	mkdir -p scratch
	perl check.pl -s check.t -p $(CURDIR)/mksh -e SFI_RUN_FLAGS -C $(CATEGORIES) -T $(CURDIR)/scratch | sed \
		-e 's/^pass [^:]*:/PASS: /' \
		-e 's/^fail [^:]*:\(.*\) (as expected)/XFAIL: \1/' \
		-e 's/^PASS [^:]*:\(.*\) (unexpectedly)/XPASS: \1/' \
		-e 's/^FAIL [^:]*:\(.*\) (ignored)/SKIP: \1/' \
		-e 's/^FAIL [^:]*:/FAIL: /'
