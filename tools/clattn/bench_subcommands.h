/*
 * What `clattn bench` does with files that it has written earlier. argv[0] is
 * the subcommand's name; they return the exit code.
 */
#ifndef CLATTN_TOOL_BENCH_SUBCOMMANDS_H
#define CLATTN_TOOL_BENCH_SUBCOMMANDS_H

int bench_plot(int argc, char **argv);
int bench_compare(int argc, char **argv);

#endif /* CLATTN_TOOL_BENCH_SUBCOMMANDS_H */
