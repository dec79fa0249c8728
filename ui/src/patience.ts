/** For the unit tests: how long they wait for what the page will show, also on a busy machine. */
import { configure } from "@testing-library/preact";

configure({ asyncUtilTimeout: 30_000 });
