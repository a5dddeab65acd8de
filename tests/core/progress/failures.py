"""Failures as tools, compilers, test runners, servers and shells tell them, with slots for what drifts."""

# ruff: noqa: E501 - the lines are as long as the world makes them

from __future__ import annotations

FAILURES: tuple[tuple[str, str], ...] = (
    ("ssh", "[[time]] ssh[[[pid]]]: connect to host box port 22: Connection refused"),
    ("ssh_pid", "[[time]] ssh[pid=[[pid]]]: connect to host box port 22: Connection refused"),
    (
        "py_tb",
        'Traceback (most recent call last):\n  File "/w/app/main.py", line [[line]], in <module>\n    run()\n  File "/w/app/core.py", line [[line]], in run\n    raise ValueError("bad input")\nValueError: bad input',
    ),
    (
        "py_tb_tmp",
        "Traceback (most recent call last):\n  File \"[[tmp]]/s.py\", line [[line]], in <module>\nModuleNotFoundError: No module named 'yaml'",
    ),
    (
        "py_obj",
        "Traceback (most recent call last):\n  File \"a.py\", line [[line]], in f\nAttributeError: <app.Foo object at [[addr]]> has no attribute 'bar'",
    ),
    ("py_log", "[[time]] ERROR app.db pool timed out after [[dur]] (request [[id]])"),
    (
        "py_unittest",
        'F\n======\nFAIL: test_a (tests.T)\n------\nTraceback (most recent call last):\n  File "tests.py", line [[line]], in test_a\n    self.assertEqual(f(2), 4)\nAssertionError: 3 != 4\n\n------\nRan 5 tests in [[dur:s2]]\n\nFAILED (failures=1)',
    ),
    (
        "pytest",
        "=== test session starts ===\ncollected 5 items\n\ntests/test_a.py ..F..    [100%]\n\n=== FAILURES ===\n___ test_x ___\n    def test_x():\n>       assert f(2) == 4\nE       assert 3 == 4\nE        +  where 3 = f(2)\n\ntests/test_a.py:[[line]]: AssertionError\n=== short test summary info ===\nFAILED tests/test_a.py::test_x - assert 3 == 4\n=== 1 failed, 4 passed in [[dur:s2]] ===",
    ),
    ("pytest_obj", "E   AssertionError: assert <Foo at [[addr]]> == <Foo at [[addr]]>\n1 failed in [[dur:s2]]"),
    (
        "pytest_tmp",
        "E   FileNotFoundError: [Errno 2] No such file or directory: '[[tmp]]/out.txt'\n1 failed, 3 passed in [[dur:s2]]",
    ),
    (
        "pytest_xdist",
        "[gw3] linux -- Python 3.11.4\nE   RuntimeError: worker died, pid [[pid]]\n1 failed in [[dur:s2]]",
    ),
    (
        "node",
        "node:internal/modules/cjs/loader:[[line]]\n  throw err;\n  ^\n\nError: Cannot find module 'express'\nRequire stack:\n- /w/index.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:[[line]]:15)\n    at /w/index.js:[[line]]:9 {\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.1.0",
    ),
    (
        "node_type",
        "/w/src/app.js:[[line]]\n    return x.y.z;\n               ^\n\nTypeError: Cannot read properties of undefined (reading 'z')\n    at get (/w/src/app.js:[[line]]:[[line]])\n    at Object.<anonymous> (/w/src/app.js:[[line]]:[[line]])",
    ),
    (
        "npm",
        "npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://registry.example/foo - Not found\nnpm ERR! A complete log of this run can be found in:\nnpm ERR!     /root/.npm/_logs/[[time:npm_log]]-debug-0.log",
    ),
    (
        "npm10",
        "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\nnpm error A complete log of this run can be found in: /root/.npm/_logs/[[time:npm_log]]-debug-0.log",
    ),
    (
        "jest",
        "FAIL src/a.test.js ([[dur]])\n  ● adds\n\n    expect(received).toBe(expected)\n\n    Expected: 4\n    Received: 3\n\n      at Object.toBe (src/a.test.js:[[line]]:[[line]])\n\nTests:       1 failed, 4 passed, 5 total\nTime:        [[dur:seconds]]",
    ),
    (
        "ts",
        "src/a.ts([[line]],[[line]]): error TS2345: Argument of type 'string' is not assignable to parameter of type 'number'.",
    ),
    (
        "ts2",
        "src/a.ts:[[line]]:[[line]] - error TS2345: Argument of type 'string' is not assignable to parameter of type 'number'.\n\n[[line]]   foo('x')\n        ~~~\n\nFound 1 error in src/a.ts:[[line]]",
    ),
    (
        "eslint",
        "/w/src/a.js\n  [[line]]:[[line]]  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)",
    ),
    (
        "rust",
        'error[E0382]: borrow of moved value: `v`\n --> src/main.rs:[[line]]:[[line]]\n  |\n[[line]] |     println!("{:?}", v);\n  |                      ^ value borrowed here after move\n\nerror: could not compile `app` (bin "app") due to 1 previous error',
    ),
    (
        "rust_panic",
        "thread 'main' panicked at src/main.rs:[[line]]:[[line]]:\nindex out of bounds: the len is 3 but the index is 7\nnote: run with `RUST_BACKTRACE=1`",
    ),
    (
        "rust_panic2",
        "thread 'main' ([[pid]]) panicked at src/main.rs:[[line]]:5:\ncalled `Option::unwrap()` on a `None` value",
    ),
    (
        "cargo",
        "   Compiling app v0.1.0 (/w)\nerror: linking with `cc` failed: exit status: 1\n  = note: /usr/bin/ld: cannot find -lssl: No such file or directory\n  = note: [[tmp:rustc]]/symbols.o\n",
    ),
    ("go", "# app\n./main.go:[[line]]:[[line]]: undefined: Foo"),
    (
        "go_panic",
        "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=[[addr]]]\n\ngoroutine [[line]] [running]:\nmain.f([[addr]])\n\t/w/main.go:[[line]] +0x1d\nexit status 2",
    ),
    (
        "go_test",
        "--- FAIL: TestAdd ([[dur:s2]])\n    add_test.go:[[line]]: got 3, want 4\nFAIL\nFAIL\tapp/add\t[[dur:s2]]\nFAIL",
    ),
    ("go_log", "[[time:go_log]] listen tcp :8080: bind: address already in use"),
    (
        "gcc",
        "main.c: In function 'main':\nmain.c:[[line]]:[[line]]: error: 'foo' undeclared (first use in this function)\n   [[line]] |   foo();\n      |   ^~~\nmake: *** [Makefile:[[line]]: main.o] Error 1",
    ),
    (
        "ld",
        "/usr/bin/ld: [[tmp:gcc]]: in function `main':\nmain.c:(.text+0x5): undefined reference to `foo'\ncollect2: error: ld returned 1 exit status",
    ),
    ("clang", "[[tmp]]/x.cpp:[[line]]:[[line]]: fatal error: 'boost/asio.hpp' file not found\n1 error generated."),
    (
        "cmake",
        'CMake Error at CMakeLists.txt:[[line]] (find_package):\n  Could not find a package configuration file provided by "Qt6"\n-- Configuring incomplete, errors occurred!',
    ),
    (
        "java",
        'Exception in thread "main" java.lang.NullPointerException: Cannot invoke "String.length()" because "s" is null\n\tat com.x.A.main(A.java:[[line]])',
    ),
    (
        "mvn",
        "[INFO] Scanning for projects...\n[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.8.1:compile (default-compile) on project app: Compilation failure\n[INFO] Total time:  [[dur:s_apart]]\n[INFO] Finished at: [[time:maven]]",
    ),
    (
        "gradle",
        "FAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed for task ':app:compileJava'.\n> Compilation failed; see the compiler error output for details.\n\nBUILD FAILED in [[dur:s]]\n3 actionable tasks: 1 executed, 2 up-to-date",
    ),
    (
        "dotnet",
        "/w/Program.cs([[line]],[[line]]): error CS0103: The name 'foo' does not exist in the current context [/w/app.csproj]\n\nBuild FAILED.\n    1 Error(s)\n\nTime Elapsed [[dur:clock_us]]",
    ),
    (
        "ruby",
        "app.rb:[[line]]:in `run': undefined method `foo' for nil:NilClass (NoMethodError)\n\tfrom app.rb:[[line]]:in `<main>'",
    ),
    (
        "rspec",
        "Failures:\n\n  1) Foo adds\n     Failure/Error: expect(f(2)).to eq(4)\n       expected: 4\n            got: 3\n     # ./spec/foo_spec.rb:[[line]]:in `block'\n\nFinished in [[dur:seconds]] (files took [[dur:seconds]] to load)\n1 example, 1 failure",
    ),
    (
        "php",
        "PHP Fatal error:  Uncaught Error: Call to undefined function foo() in /w/a.php:[[line]]\nStack trace:\n#0 {main}\n  thrown in /w/a.php on line [[line]]",
    ),
    ("bash", "bash: line [[line]]: foo: command not found"),
    ("sh_tmp", "[[tmp]]/run.sh: line [[line]]: syntax error near unexpected token `fi'"),
    (
        "http_json",
        '{"error":{"code":"invalid_api_key","message":"Incorrect API key provided"},"request_id":"[[id]]","timestamp":"[[time]]"}',
    ),
    ("http_json2", '{"timestamp":"[[time]]","status":403,"error":"Forbidden","path":"/api/x","traceId":"[[id]]"}'),
    ("http_json3", '{"message": "upstream connect error", "status": 503, "elapsed_ms": [[line]], "id": "[[id]]"}'),
    (
        "http_hdr",
        "HTTP/1.1 502 Bad Gateway\nDate: [[time:http]]\nServer: nginx\nX-Request-Id: [[id]]\n\n<html><h1>502 Bad Gateway</h1></html>",
    ),
    ("cloudflare", "HTTP/2 403\ndate: [[time:http]]\ncf-ray: [[id:ray]]\n\nerror code: 1020"),
    ("aws", "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied (RequestId: [[id]])"),
    (
        "aws2",
        '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>[[id]]</RequestId><HostId>[[id:base64]]</HostId></Error>',
    ),
    (
        "curl",
        "  % Total    % Received % Xferd\n  0     0    0     0    0     0      0      0 --:--:-- 0:00:0[[dur:s]] --:--:--     0\ncurl: (28) Operation timed out after [[dur:milliseconds]] with 0 bytes received",
    ),
    ("curl7", "curl: (7) Failed to connect to localhost port 8080 after [[dur:ms]]: Connection refused"),
    (
        "docker",
        "docker: Error response from daemon: driver failed programming external connectivity on endpoint web ([[id:sha256]]): Bind for 0.0.0.0:8080 failed: port is already allocated.",
    ),
    ("docker2", "Error response from daemon: Container [[id:container]] is not running"),
    ("docker3", "[[id:container]]\nError: container [[id:container]] exited with code 137"),
    (
        "k8s",
        'Error from server (BadRequest): container "app" in pod "[[id:pod]]" is waiting to start: ImagePullBackOff',
    ),
    (
        "k8s2",
        '[[time:klog_error]]   [[pid]] memcache.go:265] couldn\'t get current server API group list: Get "https://10.0.0.1:6443/api?timeout=32s": dial tcp 10.0.0.1:6443: connect: connection refused',
    ),
    (
        "tf",
        '╷\n│ Error: Invalid provider configuration\n│ \n│   on main.tf line [[line]], in provider "aws":\n│   [[line]]: provider "aws" {\n│ \n╵',
    ),
    ("git", "fatal: unable to access 'https://github.example/x/y.git/': Could not resolve host: github.example"),
    (
        "git_lock",
        "fatal: Unable to create '/w/.git/index.lock': File exists.\n\nAnother git process seems to be running (pid [[pid]])",
    ),
    (
        "git_conflict",
        "Auto-merging a.py\nCONFLICT (content): Merge conflict in a.py\nerror: could not apply [[id:sha7]]... wip",
    ),
    ("psql", '[[time:postgres]] [[[pid]]] FATAL:  password authentication failed for user "app"'),
    (
        "psql2",
        'psql: error: connection to server at "db" (10.0.0.5), port 5432 failed: FATAL:  the database system is starting up',
    ),
    ("sql", 'ERROR:  syntax error at or near "FORM"\nLINE [[line]]: select * FORM t\n                 ^'),
    ("mysql", "ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES) at [[time]]"),
    (
        "redis",
        "[[pid]]:M [[time:syslog]].123 # Could not create server TCP listening socket *:6379: bind: Address already in use",
    ),
    (
        "asan",
        "==[[pid]]==ERROR: AddressSanitizer: heap-use-after-free on address [[addr]] at pc [[addr]] bp [[addr]] sp [[addr]]\nREAD of size 4 at [[addr]] thread T0",
    ),
    (
        "valgrind",
        "==[[pid]]== Invalid read of size 4\n==[[pid]]==    at [[addr]]: main (a.c:[[line]])\n==[[pid]]== ERROR SUMMARY: 1 errors from 1 contexts",
    ),
    ("segv", "./run.sh: line [[line]]: [[pid]] Segmentation fault      (core dumped) ./a.out"),
    ("killed", "[[pid]] Killed                  python train.py"),
    (
        "oom",
        "[[time:kernel]] Out of memory: Killed process [[pid]] (python) total-vm:[[line]]00kB, anon-rss:[[line]]00kB",
    ),
    (
        "systemd",
        "Job for app.service failed because the control process exited with error code.\n[[time:syslog]] box systemd[1]: app.service: Main process exited, code=exited, status=1/FAILURE\n[[time:syslog]] box app[[[pid]]]: config key missing: DB_URL",
    ),
    (
        "ansible",
        'fatal: [web1]: UNREACHABLE! => {"changed": false, "msg": "Failed to connect to the host via ssh: Permission denied", "unreachable": true, "elapsed": [[line]]}',
    ),
    ("airflow", "[[[time:python_log]]] {taskinstance.py:[[line]]} ERROR - Task failed with exception"),
    (
        "winston",
        '{"level":"error","message":"Redis connection lost","pid":[[pid]],"hostname":"box","time":[[time:epoch_ms]]}',
    ),
    (
        "logfmt",
        'time="[[time:iso_z]]" level=error msg="cannot open store" err="permission denied" dur=[[dur:ms]] trace=[[id:trace]]',
    ),
    (
        "grpc",
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.7:50051: i/o timeout"',
    ),
    (
        "grpc2",
        'grpc._channel._InactiveRpcError: status = StatusCode.UNAVAILABLE details = "failed to connect" debug_error_string = "{created_time:"[[time:iso_us_zone]]", grpc_status:14}"',
    ),
    ("lock", "Error: Lock held by process [[pid]] since [[time]]"),
    ("lock2", "another instance is running (PID: [[pid]]), started [[dur]] ago"),
    ("thread", "[[time]] [http-nio-8080-exec-[[line]]] ERROR o.a.c.c.C - Servlet.service() threw exception"),
    ("thread2", "Exception in thread Thread-[[line]] (worker):\nOSError: [Errno 24] Too many open files"),
    (
        "celery",
        "[[[time:python_log]]: ERROR/ForkPoolWorker-3] Task app.tasks.run[[[id:uuid]]] raised unexpected: KeyError('x')",
    ),
    (
        "playwright",
        "TimeoutError: page.click: Timeout 30000ms exceeded.\nCall log:\n  - waiting for locator('#go')\n    at run (/w/e2e.spec.ts:[[line]]:[[line]])",
    ),
    ("sqlite", "sqlite3.OperationalError: database is locked (after [[dur]])"),
    (
        "pip",
        "ERROR: Could not find a version that satisfies the requirement foo==9.9 (from versions: 1.0, 1.1)\nERROR: No matching distribution found for foo==9.9\n\n[notice] A new release of pip is available",
    ),
    (
        "pip_build",
        "  error: subprocess-exited-with-error\n  × Building wheel for foo (pyproject.toml) did not run successfully.\n  │ exit code: 1\n  ╰─> [[[line]] lines of output]\n      [[tmp:pip]]/setup.py: fatal error: Python.h: No such file or directory\n",
    ),
    (
        "uv",
        "  × No solution found when resolving dependencies ([[dur:ms]]):\n  ╰─▶ Because foo was not found, your requirements are unsatisfiable.",
    ),
    ("cors", "[[dur:ms]] POST /api 500 Internal Server Error request-id=[[id]] remote=10.0.0.9:[[sport]]"),
    ("read_tcp", "read tcp 172.17.0.3:[[sport]]->10.0.0.5:5432: read: connection reset by peer"),
    (
        "read_udp",
        "dial udp: lookup db.internal on 10.0.0.2:53: read udp 172.17.0.3:[[sport]]->10.0.0.2:53: i/o timeout",
    ),
    (
        "nginx",
        '[[time:go_log]] [error] [[pid]]#[[pid]]: *[[line]] connect() failed (111: Connection refused) while connecting to upstream, upstream: "http://127.0.0.1:9000/"',
    ),
    (
        "haproxy",
        "[ALERT]    ([[pid]]) : Starting frontend web: cannot bind socket (Address already in use) [0.0.0.0:80]",
    ),
    (
        "flutter",
        "Running Gradle task 'assembleDebug'...                          [[dur:s2]]\nException: Gradle task assembleDebug failed with exit code 1",
    ),
    ("swift", "/w/Sources/App/main.swift:[[line]]:[[line]]: error: cannot find 'foo' in scope"),
    (
        "elixir",
        "** (UndefinedFunctionError) function Foo.bar/1 is undefined\n    (app 0.1.0) lib/app.ex:[[line]]: App.run/0\n    pid: #PID<0.[[line]].0>",
    ),
    ("haskell", "src/Main.hs:[[line]]:[[line]]: error: Variable not in scope: foo"),
    (
        "mypy",
        'app/a.py:[[line]]: error: Incompatible return value type (got "str", expected "int")  [return-value]\nFound 1 error in 1 file (checked 12 source files)',
    ),
    ("ruff", "app/a.py:[[line]]:[[line]]: F821 Undefined name `foo`\nFound 1 error."),
    ("flake8", "./a.py:[[line]]:[[line]]: E999 SyntaxError: invalid syntax"),
    ("jsonerr", "json.decoder.JSONDecodeError: Expecting ',' delimiter: line [[line]] column [[line]] (char [[pid]])"),
    (
        "yaml",
        'yaml.scanner.ScannerError: mapping values are not allowed here\n  in "config.yaml", line [[line]], column [[line]]',
    ),
    ("plain", "Something went wrong at [[time]]. Reference: [[id]]"),
    ("plain2", "deploy failed ([[dur]]) job=[[id]] host=box"),
    ("plain3", "[[time]] | ERROR | [[id]] | could not lock row | took [[dur]]"),
    ("tmp_missing", "cp: cannot stat '[[tmp]]': No such file or directory"),
    ("tmp_denied", "mkdir: cannot create directory '[[tmp]]': Permission denied"),
    ("attempt", "Attempt [[line]] failed: ETIMEDOUT after [[dur]]"),
    ("german", "[[time]] Fehler: Datei konnte nicht gelesen werden (Vorgang [[id]])"),
    ("chinese", "[[time]] 错误：连接被拒绝，耗时 [[dur]]"),
)
