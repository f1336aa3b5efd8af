#include <stdio.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

int main(void) {
    int numbers[] = {5, 3, 9, 1};
    qsort(numbers, 4, sizeof numbers[0], compare);
    for (int i = 0; i < 4; i++) printf("%d\n", numbers[i]);
    return 0;
}
