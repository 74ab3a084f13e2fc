# The build that OpenBench runs: `make EXE=<path> [EVALFILE=<network>]` builds that binary, with that network
# embedded.
EXE ?= tandem
export EVALFILE

ifeq ($(OS),Windows_NT)
    BUILT := target/release/tandem.exe
    NAME := $(if $(filter %.exe,$(EXE)),$(EXE),$(EXE).exe)
else
    BUILT := target/release/tandem
    NAME := $(EXE)
endif

all:
	cargo build --release --package tandem
	cp $(BUILT) $(NAME)

.PHONY: all
