# On a fresh Debian or Ubuntu, `make run` and `make test` need git, make and a network: tools/setup
# installs the rest and says so. Everything else here is plain cargo.

PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
RUST := . tools/rust-env.sh;
SHARE = $(DESTDIR)$(PREFIX)/share
# Where bash, zsh and fish look for the completions of installed programs. Distributions' fish does not look
# below /usr/local, and has a folder for what the administrator installs.
BASH_FOLDER = $(SHARE)/bash-completion/completions
ZSH_FOLDER = $(SHARE)/zsh/site-functions
FISH_FOLDER = $(if $(filter /usr/local,$(PREFIX)),$(DESTDIR)/etc/fish/completions,$(SHARE)/fish/vendor_completions.d)
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test build deny install uninstall dist clean

help:
	@echo 'make run [FILE=...]      build bytepath and take the tour (on FILE, if given)'
	@echo 'make test                install what the tests need, then run every check and test'
	@echo 'make build               build target/release/bytepath'
	@echo 'make install             copy it, its manual and completions to $$(DESTDIR)$$(PREFIX) (PREFIX=$(PREFIX))'
	@echo 'make uninstall           remove that again (from the same DESTDIR and PREFIX)'
	@echo 'make dist                build all that is handed out, twice, and try it in clean roots (1 to 2 hours)'
	@echo 'make deny                check the licences and advisories of the dependencies'
	@echo 'make clean               remove what was built'

# FILE travels in the environment, so that a name with spaces stays one name.
run: build
	@$(TARGET)/release/bytepath tour $${FILE:+"$$FILE"}

build:
	@tools/setup build
	@tools/build

# Cheap checks first; the tests come last, so that their verdict is what one sees. The command has the
# library's name, and its pages would overwrite the library's: hence --lib.
test:
	@tools/setup test
	$(RUST) cargo fmt --all --check
	$(RUST) cargo clippy --workspace --all-targets --locked -- -D warnings
	$(RUST) RUSTDOCFLAGS='-D warnings' cargo doc --workspace --lib --no-deps --locked
	tools/deny
	tools/test

deny:
	@tools/setup build
	@tools/deny

# Builds nothing: under sudo that would need a toolchain of root's own. Whatever its umask is, all may read it.
install:
	@test -x $(TARGET)/release/bytepath || { echo 'nothing to install yet: run make build first' >&2; exit 1; }
	install -D -m 755 $(TARGET)/release/bytepath '$(DESTDIR)$(PREFIX)/bin/bytepath'
	install -d '$(SHARE)/man/man1' '$(BASH_FOLDER)' '$(ZSH_FOLDER)' '$(FISH_FOLDER)'
	umask 022; $(TARGET)/release/bytepath man '$(SHARE)/man/man1'
	umask 022; $(TARGET)/release/bytepath completions bash >'$(BASH_FOLDER)/bytepath'
	umask 022; $(TARGET)/release/bytepath completions zsh >'$(ZSH_FOLDER)/_bytepath'
	umask 022; $(TARGET)/release/bytepath completions fish >'$(FISH_FOLDER)/bytepath.fish'

# Folders stay: others' files may be in them.
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/bytepath' '$(BASH_FOLDER)/bytepath' '$(ZSH_FOLDER)/_bytepath' '$(FISH_FOLDER)/bytepath.fish'
	rm -f '$(SHARE)/man/man1/bytepath.1' '$(SHARE)/man/man1'/bytepath-*.1

# What is committed: archives, Debian packages and wheels, for x86-64 and aarch64.
dist:
	@tools/setup dist
	@tools/dist

clean:
	@$(RUST) cargo clean
