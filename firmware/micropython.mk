# The user C module, for ports built with make: USER_C_MODULES=<this checkout>. The sources lie below
# that folder, so that their objects go into the port's build folder.

MCUTRAIN_DIR := $(patsubst %/,%,$(dir $(USERMOD_DIR)))

SRC_USERMOD_C += $(addprefix $(USERMOD_DIR)/micropython/, \
	module.c network.c state.c files.c errors.c names.c)
# The link's framing is of no use here.
SRC_USERMOD_LIB_C += $(filter-out %/wire/%,$(wildcard $(MCUTRAIN_DIR)/kernels_c/src/*/*.c))

# Arithmetic is made fast, and strict about floats; all else is as small as the port has it.
$(addprefix $(BUILD)/kernels_c/src/, forward/%.o backward/%.o update/%.o head/%.o): CFLAGS += -O2
CFLAGS_USERMOD += -ffp-contract=off
CFLAGS_USERMOD += -I$(MCUTRAIN_DIR)/kernels_c/include -I$(MCUTRAIN_DIR)/kernels_c/src
