// A Java program that uses a device through JNA. The JVM takes SIGSEGV for null pointers, stack
// overflows and safepoints, and stops its threads for garbage collections.
//
//	java Host PLUGIN
import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;

public class Host {
	static volatile boolean over;
	static volatile Object sink;
	static Integer nothing;

	static int overflow(int n) {
		return overflow(n + 1) + 1;
	}

	// Each round has a null pointer, a stack overflow and garbage.
	static int fault() {
		int caught = 0;
		for (int i = 0; i < 1000; i++) {
			sink = new byte[10000];
			try {
				sink = nothing.intValue();
			} catch (NullPointerException e) {
				caught++;
			}
		}
		try {
			sink = overflow(0);
		} catch (StackOverflowError e) {
			caught++;
		}
		System.gc();
		return caught;
	}

	static Thread start(Runnable r) {
		Thread t = new Thread(() -> {
			while (!over)
				r.run();
		});
		t.setUncaughtExceptionHandler((thread, e) -> {
			e.printStackTrace();
			System.exit(1);
		});
		t.start();
		return t;
	}

	public static void main(String[] args) throws Exception {
		NativeLibrary verbs = NativeLibrary.getInstance("libibverbs.so.1");
		IntByReference n = new IntByReference();
		Pointer list = (Pointer) verbs.getFunction("ibv_get_device_list").invoke(Pointer.class, new Object[] {n});
		if (n.getValue() != 1)
			throw new Exception(n.getValue() + " devices");
		String name = verbs.getFunction("ibv_get_device_name").invokeString(new Object[] {list.getPointer(0)}, false);
		Function use = NativeLibrary.getInstance(args[0]).getFunction("use_device");
		Thread[] users = {start(() -> use.invoke(new Object[] {50})), start(() -> use.invoke(new Object[] {50}))};
		int caught = 0;
		for (int i = 0; i < 50; i++)
			caught += fault();
		over = true;
		for (Thread t : users)
			t.join();
		if (caught != 50 * 1001)
			throw new Exception(caught + " faults were caught");
		System.out.println(name + ": ok");
	}
}
