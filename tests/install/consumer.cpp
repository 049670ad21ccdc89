// The header from C++: the problem is wrong on purpose, and the message must say how.
#include <clattn/clattn.h>

#include <cstdio>
#include <cstring>

int main()
{
    clattn_sizes sizes = {1, 3, 2, 16, 16, 64, 64}; // 3 query heads for 2 key heads
    clattn_problem problem;
    clattn_problem_init(&problem, CLATTN_FORWARD, &sizes);
    clattn_status status = clattn_problem_check(&problem, CLATTN_FORWARD);
    if (status != CLATTN_INVALID_ARGUMENT || std::strlen(clattn_message()) == 0) {
        std::fprintf(stderr, "status %s, message \"%s\"\n", clattn_status_name(status), clattn_message());
        return 1;
    }
    return 0;
}
