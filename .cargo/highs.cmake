# How HiGHS is compiled into lacuna-planner and lacuna (libs/milp): twenty sources at a time, since
# its headers cost more than its code, at -O1, and without its tests.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 20 CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "")
set(BUILD_TESTING OFF CACHE BOOL "")
