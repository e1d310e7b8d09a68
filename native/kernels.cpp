namespace hedgerow::KERNEL_LEVEL {
extern const int level;
const int level = 0;
}
