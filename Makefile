# What OpenBench calls: `make EXE=<path> [EVALFILE=<network>]` builds exactly that binary, with that network in it.
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
