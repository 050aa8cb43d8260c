"""Builds a program for this machine."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
env.Append(CFLAGS=[], LINKFLAGS=[])
target = env.BuildProgram()
AlwaysBuild(env.Alias("buildprog", target, target))
Default([target])
